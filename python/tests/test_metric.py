"""Metrics: the numbers of Paddle 2.6.2 on the same data."""

import numpy as np
import pytest
from bireme import _core, metric

RANDOM = np.random.RandomState(11)
CHANCES = RANDOM.rand(1000).astype("float32")
LABELS = (RANDOM.rand(1000, 1) < CHANCES[:, None] * 0.8).astype("int64")

# paddle.metric.* of Paddle 2.6.2 on these, in the two batches of `halves`.
AUC = 0.7878743851492487
AUC_10 = 0.7840631527525099
PRECISION = 0.5910931174089069
RECALL = 0.7525773195876289


def halves(update, first, second):
    """Updates with two unequal batches."""
    update(first[:300], second[:300])
    update(first[300:], second[300:])


@pytest.mark.parametrize("wrap", [np.asarray, _core.to_tensor])
def test_auc_has_paddles_value(wrap):
    auc = metric.Auc()
    both = np.stack([1 - CHANCES, CHANCES], axis=1)
    halves(lambda p, y: auc.update(wrap(p), wrap(y)), both, LABELS)
    assert auc.accumulate() == AUC and auc.name() == "auc"
    auc.reset()
    assert auc.accumulate() == 0.0


def test_auc_with_few_thresholds_and_one_class():
    auc = metric.Auc(num_thresholds=10, name="roc")
    auc.update(np.stack([1 - CHANCES, CHANCES], axis=1), LABELS)
    assert auc.accumulate() == AUC_10
    auc.reset()
    auc.update(np.array([[0.0, 1.0]]), np.array([1]))
    assert auc.accumulate() == 0.0


@pytest.mark.parametrize("bad", [1.5, -0.2, np.nan])
def test_auc_refuses_what_is_no_chance(bad):
    with pytest.raises(ValueError, match="takes predictions from 0 to 1, got"):
        metric.Auc().update(np.array([[0.0, bad]]), np.array([1]))


@pytest.mark.parametrize("wrap", [np.asarray, _core.to_tensor])
def test_precision_and_recall_have_paddles_values(wrap):
    precision, recall = metric.Precision(), metric.Recall()
    for one in (precision, recall):
        halves(lambda p, y, one=one: one.update(wrap(p), wrap(y)), CHANCES[:, None], LABELS)
    assert (precision.accumulate(), recall.accumulate()) == (PRECISION, RECALL)
    assert (precision.name(), recall.name()) == ("precision", "recall")
    precision.reset()
    assert precision.accumulate() == 0.0


def test_precision_and_recall_treat_one_half_differently():
    # floor(0.5 + 0.5) is 1, but rint(0.5) is 0: Paddle has it so.
    precision, recall = metric.Precision(), metric.Recall()
    precision.update(np.array([0.5]), np.array([1]))
    recall.update(np.array([0.5]), np.array([1]))
    assert (precision.accumulate(), recall.accumulate()) == (1.0, 0.0)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="`preds` must be a numpy array or a tensor, got list"):
        metric.Precision().update([0.5], np.array([1]))
    with pytest.raises(ValueError, match=r"got shapes \[2, 2\] and \[2\]"):
        metric.Recall().update(np.zeros((2, 2)), np.zeros(2))
    with pytest.raises(ValueError, match="`curve` must be `ROC`, got `PR`"):
        metric.Auc(curve="PR")


def test_accuracy_over_batches():
    accuracy = metric.Accuracy(topk=(1, 2))
    scores = np.array([[0.1, 0.2, 0.7], [0.5, 0.3, 0.2], [0.3, 0.4, 0.3]], "float32")
    for labels in ([2, 1, 1], [[0], [0], [1]]):
        correct = accuracy.compute(_core.to_tensor(scores), _core.to_tensor(np.array(labels)))
        assert correct.shape == [3, 2]
        accuracy.update(correct)
    assert accuracy.accumulate() == [4 / 6, 5 / 6]
    assert accuracy.name() == ["acc_top1", "acc_top2"] and metric.Accuracy().name() == ["acc"]
    hot = np.array([[0, 0, 1], [0, 1, 0], [0, 1, 0]], "float32")
    single = metric.Accuracy()
    share = single.update(single.compute(_core.to_tensor(scores), _core.to_tensor(hot)))
    assert share == single.accumulate() == 2 / 3


def test_accuracy_of_one_batch():
    scores = _core.to_tensor(np.array([[0.1, 0.9], [0.8, 0.2]], "float32"))
    for kind in ("int32", "int64"):
        labels = _core.to_tensor(np.array([[1], [1]], kind))
        assert float(metric.accuracy(scores, labels)) == 0.5
        assert float(metric.accuracy(scores, labels, k=2)) == 1.0


def test_a_metric_must_say_what_it_does():
    class Nothing(metric.Metric):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Nothing()
