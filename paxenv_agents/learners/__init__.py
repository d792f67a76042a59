"""Agents that learn from their experience.

An indented module is used by the one above it, or is one of its kinds:

    learner            options, traced numbers and a step of the optimiser, for all
    policy_gradient    a policy and a value that minimise a loss over minibatches
      losses             what is minimised        minibatches  how a batch is split
      ppo                PPO, RecurrentPPO        naive        REINFORCE
      shapers            Shaper, MFOS             hyper        over memory-one policies
      lola, lookahead    LOLA, through the steps that it makes its co-players take
    off_policy         what learners from replay share
      replay             the experience kept      dqn, sac     the learners
"""
