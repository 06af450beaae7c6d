"""The network in eager mode, for `tools/trainer.py` and `tools/infer.py`."""

import paddle
from net import DNNLayer


class DygraphModel:
    """Model, loss, optimizer and metrics."""

    def create_model(self, config):
        """The layer to train."""

        def setting(name):
            return config["hyper_parameters." + name]

        return DNNLayer(
            setting("sparse_feature_number"),
            setting("sparse_feature_dim"),
            setting("dense_input_dim"),
            setting("sparse_inputs_slots") - 1,
            setting("fc_sizes"),
        )

    def create_feeds(self, batch):
        """Label, ids and dense features of a batch."""
        label, *sparse, dense = batch
        ids = [paddle.reshape(field, [-1, 1]) for field in (label, *sparse)]
        return ids[0], ids[1:], dense

    def create_optimizer(self, dy_model, config):
        """Adam."""
        rate = config.get("hyper_parameters.optimizer.learning_rate", 0.001)
        return paddle.optimizer.Adam(learning_rate=rate, parameters=dy_model.parameters())

    def create_metrics(self):
        """Metrics and their names."""
        return [paddle.metric.Auc("ROC")], ["auc"]

    def train_forward(self, dy_model, metrics_list, batch_data, config):
        """The loss of a batch, the metrics, and what else to print."""
        label, scores = self._scores(dy_model, metrics_list, batch_data)
        loss = paddle.mean(paddle.nn.functional.cross_entropy(input=scores, label=label))
        return loss, metrics_list, {"loss": loss}

    def infer_forward(self, dy_model, metrics_list, batch_data, config):
        """The metrics after a batch, and what else to print."""
        self._scores(dy_model, metrics_list, batch_data)
        return metrics_list, None

    def _scores(self, dy_model, metrics_list, batch_data):
        label, sparse, dense = self.create_feeds(batch_data)
        scores = dy_model(sparse, dense)
        predicted = paddle.nn.functional.softmax(scores)
        metrics_list[0].update(preds=predicted.numpy(), labels=label.numpy())
        return label, scores
