#!/usr/bin/env python3
"""Compares what our preprocessing makes of photographs with the same formulas in NumPy, on pixels that Pillow decodes.

    scripts/dev/check_preprocessing.py --program build/release/bin/terngrad_dump_preprocessing --images FOLDER

Prints a line per preprocessing with max|ours - theirs| over the range of values and exits 1 if one is beyond the bound, 77
(skipped) without NumPy, Pillow (Debian and Ubuntu: python3-numpy, python3-pil) or images.
"""

import argparse
import math
import pathlib
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "common"))
import missing_package
import philox

SKIPPED = 77
SEED = 20170522  # as in terngrad_dump_preprocessing
OBJECTS = ((0.1, 0.15, 0.3, 0.4), (0.55, 0.5, 0.95, 0.85))  # x_min, y_min, x_max, y_max in images with odd numbers
AUGMENTATION = 6  # DrawPurpose of the draws
MEANS = (123.68, 116.78, 103.94)
MAX_DECODING_DIFFERENCE = 2  # between two versions of libjpeg
RANGES = {"alexnet": 255, "vgg": 255, "inception": 2, "standard": 2, "torchvision": 1 / 0.224}


class Draws:
    """Random words of one visit to one example."""

    def __init__(self, epoch, index):
        self.epoch, self.index = epoch, index

    def block(self, number):
        return philox.block(SEED, self.epoch, 0, AUGMENTATION, 128 * self.index + number)


def uniform(word):
    return (word >> 8) / 2**24


def below(word, count):
    return word * count >> 32


def positions(source, target):
    """Source positions in float, as in TensorFlow 1."""
    return numpy.float32(source) / numpy.float32(target) * numpy.arange(target, dtype=numpy.float32)


def bilinear(source, target):
    x = positions(source, target)
    weights = numpy.zeros((target, source))
    for i, position in enumerate(x):
        lower = min(int(position), source - 1)
        weights[i, lower] += 1 - (float(position) - lower)
        weights[i, min(lower + 1, source - 1)] += float(position) - lower
    return weights


def nearest(source, target):
    weights = numpy.zeros((target, source))
    for i, position in enumerate(positions(source, target)):
        weights[i, min(int(position), source - 1)] = 1
    return weights


def keys_kernel(distance, a=-0.75):
    if distance <= 1:
        return (a + 2) * distance**3 - (a + 3) * distance**2 + 1
    return a * distance**3 - 5 * a * distance**2 + 8 * a * distance - 4 * a


def bicubic(source, target):
    weights = numpy.zeros((target, source))
    for i, position in enumerate(positions(source, target)):
        middle = int(position)
        fraction = round((float(position) - middle) * 1024) / 1024
        for offset in range(-1, 3):
            weights[i, min(max(middle + offset, 0), source - 1)] += keys_kernel(abs(fraction - offset))
    return weights


def area(source, target):
    edges = numpy.arange(target + 1) * (source / target)
    pixels = numpy.arange(source)
    covered = numpy.minimum(edges[1:, None], pixels + 1) - numpy.maximum(edges[:-1, None], pixels)
    return numpy.maximum(covered, 0) / (source / target)


def antialiased(source, target):
    ratio = source / target
    centres = (numpy.arange(target) + 0.5) * ratio
    weights = numpy.maximum(0, 1 - abs(numpy.arange(source) + 0.5 - centres[:, None]) / max(1, ratio))
    return weights / weights.sum(axis=1, keepdims=True)


def resize(pixels, height, width, method):
    rows, columns = method(pixels.shape[0], height), method(pixels.shape[1], width)
    return numpy.einsum("yr,rsc,xs->yxc", rows, pixels.astype(numpy.float64), columns, optimize=True)


def crop(image, size, draws):
    """A random crop, possibly flipped, or without draws the centre crop."""
    spare = image.shape[0] - size, image.shape[1] - size
    if draws is None:
        top, left = spare[0] // 2, spare[1] // 2
    else:
        top, left = (below(word, count + 1) for word, count in zip(draws.block(2)[2:], spare))
    image = image[top : top + size, left : left + size]
    return image[:, ::-1] if draws is not None and draws.block(0)[1] >> 31 else image


def with_shorter_side(pixels, side, method):
    shorter = min(pixels.shape[:2])
    return resize(pixels, *(length * side // shorter for length in pixels.shape[:2]), method)


def alexnet(pixels, size, draws, _objects):
    return crop(resize(pixels, 256, 256, bilinear), size, draws) - MEANS


def vgg(pixels, size, draws, _objects):
    side = 256 if draws is None else 256 + below(draws.block(1)[2], 257)
    return crop(with_shorter_side(pixels, side, bilinear), size, draws) - MEANS


def standard(pixels, size, draws, _objects):
    return (crop(with_shorter_side(pixels, math.floor(size * 256 / 224 + 0.5), antialiased), size, draws) / 255 - 0.5) * 2


def torchvision(pixels, size, draws, objects):
    return (standard(pixels, size, draws, objects) / 2 + 0.5 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]


def draw_attempt(height, width, words):
    """(top, left, height, width) of a box; None if the attempt fails."""
    aspect = 0.75 + (1.33 - 0.75) * uniform(words[0])
    total = height * width
    largest = min(height, round(math.sqrt(total / aspect)), math.floor((width + 0.5) / aspect))
    while round(largest * aspect) > width:
        largest -= 1
    smallest = min(largest, round(math.sqrt(total / 20 / aspect)))
    rows = smallest + below(words[1], largest - smallest + 1)
    if 20 * rows * round(rows * aspect) < total:
        rows += 1
    if rows * round(rows * aspect) > total:
        rows -= 1
    columns = round(rows * aspect)
    if not total <= 20 * rows * columns <= 20 * total or rows > height or not 1 <= columns <= width:
        return None
    return below(words[2], height - rows), below(words[3], width - columns), rows, columns


def shows(box, left, top, right, bottom):
    """True if a box contains at least a tenth of an object."""
    rows = min(bottom, box[0] + box[2]) - max(top, box[0])
    columns = min(right, box[1] + box[3]) - max(left, box[1])
    size = (bottom - top) * (right - left)
    return size > 0 and 10 * max(rows, 0) * max(columns, 0) >= size


def sampled_box(height, width, objects, draws):
    def pixels(part, side):
        return int(numpy.float32(part) * numpy.float32(side))

    seen = [(pixels(x, width), pixels(y, height), pixels(right, width), pixels(bottom, height)) for x, y, right, bottom in objects]
    for attempt in range(100):
        box = draw_attempt(height, width, draws.block(2 + attempt))
        if box is not None and any(shows(box, *place) for place in seen or [(0, 0, width, height)]):
            return box
    return 0, 0, height, width


def adjust_hue_saturation(image, factor, turn):
    value, least = image.max(axis=2), image.min(axis=2)
    chroma = value - least
    red, green, blue = numpy.moveaxis(image, 2, 0)
    with numpy.errstate(divide="ignore", invalid="ignore"):
        saturation = numpy.where(value > 0, chroma / value, 0)
        hue = numpy.where(value == red, (green - blue) / chroma / 6,
                          numpy.where(value == green, (blue - red) / chroma / 6 + 1 / 3, (red - green) / chroma / 6 + 2 / 3))
    hue = (numpy.where(chroma > 0, hue, 0) + turn) % 1
    saturation = numpy.clip(saturation * factor, 0, 1)
    parts = [abs(6 * hue - 3) - 1, 2 - abs(6 * hue - 2), 2 - abs(6 * hue - 4)]
    return numpy.stack([(1 - saturation + saturation * numpy.clip(part, 0, 1)) * value for part in parts], axis=2)


def distort(image, draws):
    first, second = draws.block(0), draws.block(1)
    image = image + (2 * uniform(first[2]) - 1) * 32 / 255

    def colours(values):
        return adjust_hue_saturation(values, 0.5 + uniform(first[3]), (2 * uniform(second[0]) - 1) * 0.2)

    def contrast(values):
        means = values.mean(axis=(0, 1))
        return (values - means) * (0.5 + uniform(second[1])) + means

    return colours(contrast(image)) if first[0] >> 30 & 1 else contrast(colours(image))


def inception(pixels, size, draws, objects):
    height, width = pixels.shape[:2]
    if draws is None:
        top, left = int((height - 0.875 * height) / 2), int((width - 0.875 * width) / 2)
        image = resize(pixels[top : height - top, left : width - left], size, size, bilinear) / 255
    else:
        top, left, rows, columns = sampled_box(height, width, objects, draws)
        word, coin = draws.block(0)[:2]
        method = (bilinear, nearest, bicubic, area)[word >> 30]
        image = resize(pixels[top : top + rows, left : left + columns], size, size, method) / 255
        image = distort(image[:, ::-1] if coin >> 31 else image, draws)
    return (numpy.clip(image, 0, 1) - 0.5) * 2


PREPROCESSINGS = {"alexnet": alexnet, "vgg": vgg, "inception": inception, "standard": standard,
                  "torchvision": torchvision}


def read_images(folder):
    """Each image's pixels as decoded by Pillow, or by us if Pillow's libjpeg rounds differently."""
    ours = numpy.fromfile(folder / "pixels.u8", dtype=numpy.uint8)
    images, begin, largest = [], 0, 0
    for line in (folder / "images.txt").read_text().splitlines():
        height, width, path = line.split(" ", 2)
        shape = int(height), int(width), 3
        decoded = ours[begin : begin + math.prod(shape)].reshape(shape)
        begin += decoded.size
        with PIL.Image.open(path) as image:
            pillows = numpy.asarray(image.convert("RGB"))
        largest = max(largest, int(abs(pillows.astype(int) - decoded).max()))
        images.append(pillows if (pillows == decoded).all() else decoded)
    print(f"{'pixels':10} {largest:9} {'ok' if largest <= MAX_DECODING_DIFFERENCE else f'BEYOND {MAX_DECODING_DIFFERENCE}'}")
    return images, largest <= MAX_DECODING_DIFFERENCE


def compare(folder, size, visits, bound):
    images, is_good = read_images(folder)
    for name, preprocess in PREPROCESSINGS.items():
        ours = numpy.fromfile(folder / f"{name}.f32", dtype="<f4").reshape(len(images), visits + 1, size, size, 3)
        largest = 0.0
        for i, pixels in enumerate(images):
            for visit in range(visits + 1):
                draws = Draws(visit, i) if visit < visits else None
                theirs = preprocess(pixels, size, draws, OBJECTS if i % 2 == 1 else ())
                # Written so that NaN fails.
                difference = float(abs(ours[i, visit] - theirs).max()) / RANGES[name]
                largest = largest if difference <= largest else difference
        is_close = largest <= bound
        print(f"{name:10} {largest:9.2e} {'ok' if is_close else f'BEYOND {bound:g}'}")
        is_good = is_good and is_close
    return is_good


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, type=pathlib.Path, help="the built terngrad_dump_preprocessing")
    parser.add_argument("--images", required=True, type=pathlib.Path, help="a folder of JPEG and PNG files, in folders or not")
    parser.add_argument("--size", type=int, default=64, help="height and width of the results (default 64)")
    parser.add_argument("--visits", type=int, default=2, help="visits of training to each image (default 2)")
    parser.add_argument("--bound", type=float, default=1e-5, help="of the differences (default 0.00001)")
    return parser.parse_args()


def main(options):
    if not options.images.is_dir():
        print(f"skipped: no images in {options.images}")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([options.program.resolve(), options.images, folder, str(options.size), str(options.visits)], check=True)
        return 0 if compare(pathlib.Path(folder), options.size, options.visits, options.bound) else 1


if __name__ == "__main__":
    arguments = parse()
    try:
        import numpy
        import PIL.Image
    except ImportError as missing:
        print(f"skipped: {missing_package.hint(missing)}")
        sys.exit(SKIPPED)
    sys.exit(main(arguments))
