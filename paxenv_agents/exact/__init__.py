"""Learning with exact gradients: differentiable games, methods, and agents of them.

Games are functions (`games`), methods are functions of games (`gradients`,
`proximal`), `training` iterates them, and `agents` play `InfiniteMatrixGame` by
them inside the engine.
"""
