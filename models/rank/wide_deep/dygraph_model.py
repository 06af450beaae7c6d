"""The network in eager mode, for `tools/trainer.py` and `tools/infer.py`."""

import paddle
from net import WideDeepLayer


class DygraphModel:
    """Model, loss, optimizer and metrics."""

    def create_model(self, config):
        """The layer to train."""

        def setting(name):
            return config["hyper_parameters." + name]

        return WideDeepLayer(
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
        label, click = self._predict(dy_model, metrics_list, batch_data)
        wanted = paddle.cast(label, "float32")
        loss = paddle.mean(paddle.nn.functional.log_loss(input=click, label=wanted))
        return loss, metrics_list, {"loss": loss}

    def infer_forward(self, dy_model, metrics_list, batch_data, config):
        """The metrics after a batch, and what else to print."""
        self._predict(dy_model, metrics_list, batch_data)
        return metrics_list, None

    def _predict(self, dy_model, metrics_list, batch_data):
        label, sparse, dense = self.create_feeds(batch_data)
        click = dy_model(sparse, dense)
        predicted = paddle.concat([1 - click, click], axis=1)
        metrics_list[0].update(preds=predicted.numpy(), labels=label.numpy())
        return label, click
