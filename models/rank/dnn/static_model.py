"""The network as a static program: what it is fed, its loss, AUC and optimizer."""

import paddle
from net import DNNLayer


class StaticModel:
    """Made of a config's flat settings, by `tools/static_trainer.py` and its kin."""

    def __init__(self, config):
        self.config = config
        self.inference_target_var = None

    def _setting(self, name):
        return self.config["hyper_parameters." + name]

    def create_feeds(self, is_infer=False):
        """The variables of a sample, in the order in which readers yield them."""
        slots = range(1, self._setting("sparse_inputs_slots"))
        label = paddle.static.data("label", [None, 1], "int64")
        sparse = [paddle.static.data(str(slot), [None, 1], "int64") for slot in slots]
        dense = paddle.static.data("dense_input", [None, self._setting("dense_input_dim")])
        return [label, *sparse, dense]

    def net(self, feeds, is_infer=False):
        """Builds the network; returns what to print, by name."""
        label, *sparse, dense = feeds
        model = DNNLayer(
            self._setting("sparse_feature_number"),
            self._setting("sparse_feature_dim"),
            self._setting("dense_input_dim"),
            len(sparse),
            self._setting("fc_sizes"),
        )
        scores = model(sparse, dense)
        self.predict = paddle.nn.functional.softmax(scores)
        auc, _, counts = paddle.static.auc(
            input=self.predict, label=label, num_thresholds=2**12, slide_steps=20
        )
        self.batch_stat_pos, self.batch_stat_neg, self.stat_pos, self.stat_neg = counts
        self.inference_target_var = auc
        if is_infer:
            return {"auc": auc}
        cost = paddle.nn.functional.cross_entropy(input=scores, label=label)
        self._cost = paddle.mean(cost)
        return {"cost": self._cost, "auc": auc}

    def create_optimizer(self, strategy=None):
        """Adam, of the job where there is a strategy for one."""
        optimizer = paddle.optimizer.Adam(
            learning_rate=self._setting("optimizer.learning_rate"), lazy_mode=True
        )
        if strategy is not None:
            from paddle.distributed import fleet

            optimizer = fleet.distributed_optimizer(optimizer, strategy)
        optimizer.minimize(self._cost)

    def infer_net(self, feeds):
        """The network for evaluation."""
        return self.net(feeds, is_infer=True)
