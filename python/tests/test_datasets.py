"""Data sets: the embedded housing data, MNIST from IDX files, the cache folder."""

import gzip
import http.server
import os
import pathlib
import struct
import threading

import numpy as np
import pytest
from bireme import vision
from bireme.dataset import common, mnist, uci_housing
from bireme.vision.datasets import MNIST, FashionMNIST
from bireme.vision.transforms import Compose, Normalize, ToTensor, Transpose

REAL_MNIST = os.environ.get("BIREME_TEST_MNIST")


@pytest.fixture
def idx_files(tmp_path):
    pixels = np.arange(5 * 28 * 28, dtype="uint32").astype("uint8").reshape(5, 28, 28)
    labels = np.array([5, 0, 4, 1, 9], "uint8")
    images = tmp_path / "images.gz"
    images.write_bytes(gzip.compress(struct.pack(">IIII", 2051, 5, 28, 28) + pixels.tobytes()))
    numbers = tmp_path / "labels.gz"
    numbers.write_bytes(gzip.compress(struct.pack(">II", 2049, 5) + labels.tobytes()))
    return str(images), str(numbers), pixels, labels


def test_housing_is_scaled_and_split_as_paddle_does():
    train, test = list(uci_housing.train()()), list(uci_housing.test()())
    assert (len(train), len(test)) == (404, 102)
    features, price = train[0]
    # list(paddle.dataset.uci_housing.train()())[0]
    assert np.allclose(features[:4], [-0.0405441, 0.06636364, -0.32356227, -0.06916996], atol=1e-7)
    assert price.tolist() == [24.0] and features.dtype == "float64"
    everything = np.array([f for f, _ in train + test])
    assert np.allclose(everything.mean(axis=0), 0) and len(uci_housing.feature_names) == 13
    assert np.allclose(np.ptp(everything, axis=0), 1)


def test_mnist_reader_scales_to_minus_one_and_one(idx_files):
    images, numbers, pixels, labels = idx_files
    samples = list(mnist.reader_creator(images, numbers, 2)())
    assert [label for _, label in samples] == labels.tolist()
    image = samples[3][0]
    assert image.shape == (784,) and image.dtype == "float32"
    assert np.allclose(image, pixels[3].ravel() / 127.5 - 1, atol=1e-6)


def test_mnist_with_cv2_gives_arrays(idx_files):
    images, numbers, pixels, _ = idx_files
    digits = MNIST(images, numbers, backend="cv2")
    image, label = digits[2]
    assert len(digits) == 5 and image.shape == (28, 28) and image.dtype == "float32"
    assert np.array_equal(image, pixels[2]) and label.tolist() == [4] and label.dtype == "int64"
    image[:] = 0
    assert np.array_equal(digits[2][0], pixels[2]), "a sample is a copy"
    normal = Compose([Transpose(), Normalize([127.5], [127.5])])
    scaled, _ = MNIST(images, numbers, transform=normal, backend="cv2")[1]
    assert scaled.shape == (1, 28, 28) and scaled.dtype == "float32"
    assert np.allclose(scaled[0], pixels[1] / 127.5 - 1, atol=1e-6)


def test_mnist_with_the_pil_backend(idx_files):
    images, numbers, pixels, _ = idx_files
    tensor, label = MNIST(images, numbers, transform=ToTensor(), backend="pil")[1]
    assert tensor.shape == [1, 28, 28] and label.tolist() == [0]
    assert np.allclose(tensor.numpy()[0], pixels[1] / 255, atol=1e-6)
    try:
        import PIL  # noqa: F401
    except ImportError:
        with pytest.raises(ImportError, match="pip install pillow.*set_image_backend\\('cv2'\\)"):
            MNIST(images, numbers)
    else:
        assert MNIST(images, numbers)[0][0].size == (28, 28)


def test_the_image_backend_is_set_for_all():
    vision.set_image_backend("cv2")
    try:
        assert vision.get_image_backend() == "cv2"
    finally:
        vision.set_image_backend("pil")
    with pytest.raises(ValueError, match="unknown image backend `gimp`"):
        vision.set_image_backend("gimp")


def test_files_that_are_no_idx_files_are_refused(idx_files, tmp_path):
    images, numbers, _, _ = idx_files
    with pytest.raises(ValueError, match="is not an IDX file of bytes in 1 dimensions"):
        MNIST(images, images, backend="cv2")
    short = tmp_path / "short"
    short.write_bytes(gzip.decompress(pathlib.Path(images).read_bytes())[:-7])
    with pytest.raises(ValueError, match=r"cut off .*\(5, 28, 28\), 3913 bytes follow"):
        MNIST(str(short), numbers, backend="cv2")
    broken = tmp_path / "broken.gz"
    broken.write_bytes(pathlib.Path(images).read_bytes()[:60])
    with pytest.raises(ValueError, match="broken gzip file"):
        MNIST(str(broken), numbers, backend="cv2")
    with pytest.raises(ValueError, match="`mode` must be `train` or `test`, got `dev`"):
        MNIST(images, numbers, mode="dev")
    with pytest.raises(ValueError, match="give the path of `t10k-images-idx3-ubyte.gz`"):
        FashionMNIST(mode="test", download=False, backend="cv2")


@pytest.fixture
def server(tmp_path):
    """A local web server of one folder; returns the folder and the address."""
    folder = tmp_path / "www"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(folder))

        def log_message(self, *args):
            pass

    http_server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    threading.Thread(target=http_server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{http_server.server_address[1]}"
    http_server.shutdown()
    http_server.server_close()


def test_download_checks_and_caches(server, tmp_path, monkeypatch, capsys):
    folder, address = server
    (folder / "a.bin").write_bytes(b"bireme")
    md5 = common.md5file(str(folder / "a.bin"))
    monkeypatch.setattr(common, "DATA_HOME", str(tmp_path / "home"))
    path = common.download(f"{address}/a.bin", "demo", md5)
    assert path == str(tmp_path / "home" / "demo" / "a.bin") and common.md5file(path) == md5
    assert "100 %" in capsys.readouterr().err
    (folder / "a.bin").unlink()
    assert common.download(f"{address}/a.bin", "demo", md5) == path, "from the cache"
    (folder / "b.bin").write_bytes(b"other")
    with pytest.raises(RuntimeError, match="what came has the MD5"):
        common.download(f"{address}/b.bin", "demo", md5)
    assert os.listdir(tmp_path / "home" / "demo") == ["a.bin"], "nothing half done is left"


def test_without_a_network_the_error_says_which_file_to_put_where(tmp_path, monkeypatch):
    monkeypatch.setattr(common, "DATA_HOME", str(tmp_path))
    monkeypatch.setattr(common, "_PADDLE_HOME", str(tmp_path / "none"))
    monkeypatch.setattr(MNIST, "URL_PREFIX", "http://127.0.0.1:9/mnist/")
    with pytest.raises(RuntimeError) as caught:
        MNIST(mode="test", backend="cv2")
    text = str(caught.value)
    assert "can't download `http://127.0.0.1:9/mnist/t10k-images-idx3-ubyte.gz`" in text
    assert str(tmp_path / "mnist" / "t10k-images-idx3-ubyte.gz") in text
    assert "MD5 9fb629c4189551a2d022fa330f9573f3" in text and "BIREME_DATA_HOME" in text


def test_paddles_cache_is_used_when_it_has_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(common, "DATA_HOME", str(tmp_path / "ours"))
    monkeypatch.setattr(common, "_PADDLE_HOME", str(tmp_path / "theirs"))
    monkeypatch.delenv("BIREME_DATA_HOME", raising=False)
    (tmp_path / "theirs" / "demo").mkdir(parents=True)
    there = tmp_path / "theirs" / "demo" / "a.bin"
    there.write_bytes(b"bireme")
    found = common.download("http://127.0.0.1:9/a.bin", "demo", common.md5file(str(there)))
    assert found == str(there)


@pytest.mark.skipif(not REAL_MNIST, reason="BIREME_TEST_MNIST names no folder with MNIST")
def test_real_mnist():
    def path(name):
        return os.path.join(REAL_MNIST, name)

    digits = MNIST(
        path("t10k-images-idx3-ubyte.gz"), path("t10k-labels-idx1-ubyte.gz"), "test", backend="cv2"
    )
    assert len(digits) == 10000 and digits[0][1].tolist() == [7] and digits[0][0].sum() == 18454
