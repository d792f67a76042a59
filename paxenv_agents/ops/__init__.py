"""Maths of learners: pure functions of arrays, without agents, games or networks."""
