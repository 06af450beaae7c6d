"""Functions of neural networks, without parameters of their own: `paddle.nn.functional`."""
