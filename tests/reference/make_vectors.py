#!/usr/bin/env python3
"""Writes tests/reference/vectors/*.txt, the test vectors of the codecs.

Usage: tests/reference/make_vectors.py

vectors.py says what their lines mean; vectors_test.py fails where they are not what this script writes. Needs numpy.
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.append(str(ROOT / "scripts" / "common"))
import missing_package  # noqa: E402  (the path comes first)

try:
    from reference.vectors import Case, vector_lines
except ImportError as error:
    sys.exit(f"make_vectors.py: {missing_package.hint(error)}")

FOLDER = pathlib.Path(__file__).resolve().parent / "vectors"
NAN, INFINITY = 0x7FC00000, 0xFF800000
# A slice that begins inside a block of 640 and inside a column.
LAST_CHUNK = {"shape": (4396,), "cut": (4096, 300)}

# Some seeds are chosen so that 16-bit draws tie and the 24-bit refinement decides.
FILES = {
    "floats": [
        Case("fp32", shape=(40,), workers=3),
        Case("fp32", shape=(24,), set=((1, 5, NAN),)),
        Case("bf16", shape=(99,), workers=3),
    ],
    "ternary": [
        Case("ternary", workers=3, seed=44, step=2**32 + 1, offset=64),
        Case("ternary:format=t5,clip_factor=1.5", workers=3, seed=2**40 + 3, step=1),
        Case("ternary:format=tmask,clip_factor=1.5,clip_scope=local", workers=3),
        Case("ternary:scaler=original,clip_factor=2.5,sharing=mean", workers=5, shape=(130,)),
        Case("ternary:format=trans", workers=1, seed=7),
        Case("ternary:format=trans,sharing=none,scope=block,block=128", workers=1, **LAST_CHUNK),
        Case("ternary:sharing=none,scope=block,block=64", seed=272, step=3),
        Case("ternary:scope=block,block=640,format=t5", workers=3, **LAST_CHUNK),
        Case("ternary:rounding=nearest,clip_factor=1.22", workers=3),
        Case("ternary:rounding=nearest,scope=block,block=128,format=tmask"),
        Case("ternary:rounding=stratified,clip_factor=1.5,format=t5", workers=4, seed=35, shape=(60,)),
        Case("ternary:rounding=stratified,sharing=none", workers=3, step=2, shape=(40,)),
        Case("ternary:levels=asymmetric", workers=3, seed=35),
        Case("ternary:levels=asymmetric,sharing=none,clip_factor=1.5,scope=block,block=128"),
        Case("ternary:levels=asymmetric,rounding=nearest,scaler=original,clip_factor=1,format=tmask"),
        Case("ternary", workers=3, set=((1, 299, INFINITY),)),
        Case("ternary", shape=(1,), offset=4096),
        Case("ternary:rotate=128", shape=(150,), seed=2**36 + 5, step=2**33),
        Case("ternary:sharing=none,scope=block,block=64,format=t5,rotate=256", set=((1, 7, INFINITY),)),
        *(Case(f"ternary:rotate={run}", workers=1, shape=(35,), step=run) for run in (64, 512, 1024, 2048, 4096)),
    ],
    "qsgd": [
        Case("qsgd", workers=3, seed=146, step=2, offset=128),
        Case("qsgd:bits=2,block=128", seed=18),
        Case("qsgd:bits=8,block=64", shape=(150,), seed=1174),
        Case("qsgd:norm=pow2,block=64"),
        Case("qsgd:norm=l2", workers=3, seed=47),
        Case("qsgd:norm=rms,block=64", step=1),
        Case("qsgd:norm=rms,clip=1.5,sharing=max", workers=3),
        Case("qsgd:rounding=nearest,block=0", workers=3),
        Case("qsgd:rounding=stratified,block=64", shape=(70,), seed=21),
        Case("qsgd:bits=2,sharing=max,block=64", workers=3, seed=2**63 + 9),
        Case("qsgd:bits=8,sharing=max", workers=5, shape=(100,)),
        Case("qsgd:block=640", **LAST_CHUNK),
        Case("int8", shape=(200,)),
        Case("qsgd:block=64", set=((0, 100, NAN),), exponent=20),
        Case("qsgd:sharing=max", exponent=-88, shape=(70,), set=((1, 3, 0x15000000),)),
        Case("qsgd:norm=l2", exponent=126, shape=(70,)),
        Case("qsgd:rotate=64", shape=(150,), seed=53, step=2, offset=192),
        Case("thc", memory="none", workers=1, shape=(1030,), seed=7),
        Case("qsgd:bits=2,norm=l2,block=128,rotate=1024", workers=1, **LAST_CHUNK),
        *(Case(f"qsgd:rotate={run}", workers=1, shape=(35,), step=run) for run in (128, 256, 512, 2048, 4096)),
    ],
    "natural": [
        Case("natural", workers=3, shape=(150,), seed=19, step=4),
        Case("natural:block=64", shape=(200,), exponent=7),
        Case("natural", shape=(70,), exponent=126),
        Case("natural:bits=4,block=64", workers=3, seed=349),
        Case("natural:bits=4,norm=l2", seed=172, offset=192),
        Case("nuqsgd", **LAST_CHUNK),
    ],
    "sign": [
        Case("sign", workers=3, step=1, offset=64),
        Case("sign:scale=l2,zeros=plus"),
        Case("sign:scale=drive,block=64", **LAST_CHUNK),
        Case("sign:scale=drive,rotate=64", shape=(191,), offset=64),
        *(Case(f"sign:rotate={run}", workers=1, shape=(35,), step=run) for run in (128, 256, 512, 1024, 2048, 4096)),
        Case("sign:reduce=vote", workers=3),
        Case("sign:reduce=vote,block=128,zeros=plus", workers=4, step=7),
        Case("signsgd", workers=4),
        Case("signsgd", workers=3, set=((2, 0, NAN),)),
    ],
    "onebit": [
        Case("onebit", memory="none", shape=(20, 15), workers=3),
        Case("onebit", memory="none", shape=(120, 5), step=1),
        Case("onebit:group=layer", memory="none"),
        Case("onebit:group=block,block=64", memory="none", **LAST_CHUNK),
    ],
    "topk": [
        Case("topk", memory="none", workers=1, shape=(20, 30)),
        Case("topk:density=0.4", memory="none", workers=1, shape=(330,)),
        Case("topk:density=0.1,values=bf16", memory="none", shape=(110,)),
        Case("topk:scope=block,block=256,density=0.03", memory="none", workers=1, shape=(600,)),
        Case("topk:scope=block,density=0.01,values=bf16", memory="none", workers=1, shape=(4200,)),
        Case("topk:density=1", memory="none", workers=1, shape=(5,)),
        Case("topk", memory="none", shape=(300,), set=((1, 7, NAN),)),
    ],
    "fp8": [
        Case("fp8", shape=(200,), workers=2, exponent=127),
        Case("fp8:block=0,rounding=stochastic", shape=(150,), workers=3, seed=149, offset=320),
        Case("fp8:rounding=stochastic,block=64", shape=(150,), seed=185, exponent=7),
    ],
    "eden": [
        Case("eden", workers=3, seed=31, step=2**33, offset=128),
        Case("eden:rotate=64,scale=least", shape=(200,), step=4),
        Case("eden:levels=2,rotate=128", shape=(200,), workers=3),
        Case("eden:levels=2,scale=least,rotate=64", **LAST_CHUNK),
        Case("eden:levels=4,rotate=1024", workers=1, shape=(1100,)),
        Case("eden:levels=8,rotate=64", shape=(150,), workers=3, seed=2**40 + 1),
        Case("eden:levels=8,scale=least,rotate=256", workers=1, **LAST_CHUNK),
        Case("eden:levels=16,rotate=512", shape=(99,)),
        Case("eden:levels=16,rotate=64", shape=(150,), set=((1, 70, NAN),)),
        Case("eden:levels=4,rotate=64", exponent=-88, shape=(70,), set=((1, 3, 0x15000000),)),
        Case("eden:levels=8,rotate=2048", exponent=126, shape=(70,)),
    ],
    "memories": [
        Case("efsignsgd", steps=3),
        Case("terngrad_ef", steps=3, workers=3),
        Case("qsgd", memory="ef", beta=0.9, steps=3),
        Case("onebit", shape=(20, 15), steps=2),
        Case("topk:density=0.1", steps=3, shape=(100,)),
        Case("signum", beta=0.9, steps=3, workers=3),
        Case("fp8", memory="ef", steps=2, shape=(100,)),
        Case("thc", steps=2, shape=(35,)),
        Case("eden:scale=least", memory="ef", steps=2, shape=(35,)),
        Case("sign", memory="loco", beta=0.8, step=1023, steps=3, shape=(150,)),
        Case("topk:density=0.1", memory="ef21", beta=0.0, steps=4, shape=(100,)),
        Case("eden", memory="ef21", beta=0.9, steps=3, shape=(35,)),
        Case("efsignsgd", steps=2, set=((1, 17, NAN),)),
    ],
}


def text_of(cases: list[Case]) -> str:
    """Content of a file."""
    blocks = [["# Written by tests/reference/make_vectors.py; tests/reference/vectors.py says what the lines mean."]]
    blocks += [vector_lines(case) for case in cases]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def main():
    if sys.argv[1:]:
        print(__doc__.strip(), file=sys.stdout if sys.argv[1:] in (["--help"], ["-h"]) else sys.stderr)
        return 0 if sys.argv[1:] in (["--help"], ["-h"]) else 2
    FOLDER.mkdir(exist_ok=True)
    for name, cases in FILES.items():
        (FOLDER / f"{name}.txt").write_text(text_of(cases), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
