"""An eager perceptron on MNIST, read from the cache folder: `python mnist_eager.py [EPOCHS]`."""

import sys

import bireme as paddle
import numpy as np
from bireme import nn

BATCH = 64


class Perceptron(nn.Layer):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(784, 128)
        self.out = nn.Linear(128, 10)

    def forward(self, image):
        flat = paddle.reshape(image, [-1, 784])
        return self.out(nn.functional.relu(self.hidden(flat)))


def main():
    epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    paddle.seed(1)
    model = Perceptron()
    adam = paddle.optimizer.Adam(learning_rate=0.001, parameters=model.parameters())
    train = loader("train", shuffle=True)
    for epoch in range(epochs):
        model.train()
        for step, (image, label) in enumerate(train):
            loss = nn.functional.cross_entropy(model(image), label)
            loss.backward()
            adam.step()
            adam.clear_grad()
            if step % 200 == 0:
                print(f"epoch {epoch + 1}, step {step}: loss {float(loss):.3f}")
    print(f"test accuracy {accuracy(model):.3f}")
    paddle.save(model.state_dict(), "mnist.pdparams")


def loader(mode, shuffle):
    images = paddle.vision.datasets.MNIST(mode=mode, transform=scaled, backend="cv2")
    return paddle.io.DataLoader(images, batch_size=BATCH, shuffle=shuffle)


def scaled(image):
    return np.asarray(image, "float32") / 127.5 - 1.0


@paddle.no_grad()
def accuracy(model):
    model.eval()
    metric = paddle.metric.Accuracy()
    for image, label in loader("test", shuffle=False):
        metric.update(metric.compute(model(image), label))
    return metric.accumulate()


if __name__ == "__main__":
    main()
