"""Philox4x32-10 and the draws of docs/wire-format.md, one at a time, for readers of messages."""

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
SELECT = 13


def block(seed, step, worker, purpose, number):
    """The four words of a block of draws."""
    x = [number % 2**32, worker, step % 2**32, number >> 32 | step >> 32 << 16 | purpose << 24]
    key = [seed % 2**32, seed >> 32]
    for _ in range(10):
        a, b = MULTIPLIERS[0] * x[0], MULTIPLIERS[1] * x[2]
        x = [b >> 32 ^ x[1] ^ key[0], b % 2**32, a >> 32 ^ x[3] ^ key[1], a % 2**32]
        key = [(word + step_of_key) % 2**32 for word, step_of_key in zip(key, WEYL)]
    return x


def draws32(seed, step, worker, purpose, first, count):
    """The 32-bit draws first to first + count - 1."""
    blocks = {}
    for draw in range(first, first + count):
        if draw // 4 not in blocks:
            blocks = {draw // 4: block(seed, step, worker, purpose, draw // 4)}
        yield blocks[draw // 4][draw % 4]
