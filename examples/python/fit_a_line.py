"""Linear regression on the UCI housing table, with a program: `python fit_a_line.py`."""

import bireme as paddle
import numpy as np

EPOCHS = 30


def main():
    paddle.enable_static()
    paddle.seed(1)
    x = paddle.static.data("x", [None, 13], "float32")
    y = paddle.static.data("y", [None, 1], "float32")
    predicted = paddle.static.nn.fc(x, size=1)
    loss = paddle.mean(paddle.nn.functional.square_error_cost(predicted, y))
    test = paddle.static.default_main_program().clone(for_test=True)
    paddle.optimizer.SGD(learning_rate=0.01).minimize(loss)

    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    shuffled = paddle.reader.shuffle(paddle.dataset.uci_housing.train(), buf_size=500)
    train = paddle.batch(shuffled, batch_size=20)
    for epoch in range(EPOCHS):
        losses = [executor.run(feed=arrays(rows), fetch_list=[loss])[0] for rows in train()]
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}: loss {np.mean(losses):.2f}")

    rows = list(paddle.dataset.uci_housing.test()())
    (found,) = executor.run(test, feed=arrays(rows), fetch_list=[loss])
    print(f"test loss {float(np.mean(found)):.2f}")


def arrays(rows):
    features, prices = zip(*rows, strict=True)
    return {"x": np.array(features, "float32"), "y": np.array(prices, "float32")}


if __name__ == "__main__":
    main()
