"""Compiled programs: experiments, their play, and their outer optimisers."""
