"""Models written once against Paddle's API, for real Paddle and for Bireme, static and eager.

Each module has
- `FEEDS`: name -> (shape, element type) of what a batch holds, `LABELS`: those of them that only
  training needs, `batch(random, size)`: a batch as numpy arrays;
- `Net`: the layer, and `arguments(feeds)`: what its `forward` is given;
- `loss(output, feeds)`, and `optimizer(parameters)` -> (optimizer, scheduler or None);
- `METRIC`: "auc", "accuracy" or None, with `judged(output, feeds)` -> (scores, labels) for it.

Nothing here is random at run time, so that equal weights and data must give equal losses.
"""

NAMES = ["fit_a_line", "mnist_mlp", "ctr_dnn", "wide_deep", "deepfm", "mmoe", "din", "gru4rec"]
