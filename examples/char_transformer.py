#!/usr/bin/env python3
"""Trains a character transformer of 1 million parameters with the compressed gradients of N virtual workers, in one process.

    examples/char_transformer.py --workers 4 --codec ternary:clip_factor=2.5 --steps 300
    examples/char_transformer.py --codec terngrad_ef --codec_for '*.bias=fp32' --codec_for 'head.*=qsgd:bits=8'

The text is drawn from a small grammar. Embeddings and the head travel in bf16 unless --codec_for says otherwise: their gradients
are nothing like those of the blocks, as most characters are rare. Other parameters below 1,024 elements travel in fp32. Bytes are
those that each of N processes would send, beside those of fp32 in a ring all-reduce, 2 (N - 1) / N times the gradient's.

At the end it says what the codec did to each tensor that is not in fp32 in the last step: the signal-to-noise ratio of worker 0's
message, |g|^2 / |sent - g|^2 in dB. With error feedback what is sent is g and what was left out before, so this ratio is smaller.
"""

import argparse
import math
import random
import sys

import terngrad.torch
import torch

WIDTH, HEADS, DEPTH, CONTEXT = 128, 4, 5, 64
GRAMMAR = {  # words in capitals are replaced by one of their lines
    "SENTENCE": ["THING ACTION THING.", "if THING ACTION THING, then SENTENCE", "THING ACTION THING and ACTION THING.",
                 "the NUMBER NOUN of THING ACTION THING."],
    "THING": ["the NOUN", "the QUALITY NOUN", "a QUALITY NOUN", "NUMBER NOUN"],
    "NOUN": ["river", "harbour", "lantern", "clock", "garden", "engine", "letter", "island", "mirror", "violin"],
    "QUALITY": ["old", "quiet", "bright", "broken", "distant", "narrow", "patient"],
    "NUMBER": ["first", "second", "third", "last"],
    "ACTION": ["sees", "follows", "repairs", "hides", "remembers", "carries", "never finds"],
}


def draw_text(num_characters, seed):
    """Random sentences of the grammar."""
    draws = random.Random(seed)

    def expand(word):
        name = word.strip(".,")
        return word.replace(name, " ".join(map(expand, draws.choice(GRAMMAR[name]).split()))) if name in GRAMMAR else word

    text = ""
    while len(text) < num_characters:
        text += expand("SENTENCE") + "\n"
    return text[:num_characters]


class Transformer(torch.nn.Module):
    """Predicts the next character after each of up to CONTEXT characters."""

    def __init__(self, num_characters):
        super().__init__()
        self.embedding = torch.nn.Embedding(num_characters, WIDTH)
        self.position = torch.nn.Embedding(CONTEXT, WIDTH)
        self.blocks = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(DEPTH))
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.head = torch.nn.Linear(WIDTH, num_characters)

    def forward(self, characters):
        length = characters.shape[1]
        x = self.embedding(characters) + self.position(torch.arange(length))
        later = torch.full((length, length), -math.inf).triu(1)
        for block in self.blocks:
            x = block(x, src_mask=later)
        return self.head(self.norm(x))

    def loss(self, characters):
        """Mean loss of predicting all characters except the first, in nats. @param characters  [n, CONTEXT + 1]"""
        scores = self(characters[:, :-1])
        return torch.nn.functional.cross_entropy(scores.flatten(0, 1), characters[:, 1:].flatten())


def print_layers(model, virtual, gradients):
    """Prints the signal-to-noise ratio of worker 0's message in the last step, per tensor."""
    print("tensor                              elements  codec      bits  SNR, dB")
    for tensor in virtual.exchange.plan():
        if tensor.codec != "fp32":
            name, (codec, _, _) = tensor.name, tensor.codec.partition(":")
            sent, scaler = virtual.exchange.decode_local(0, name)
            snr = terngrad.telemetry(gradients[name].numpy(), sent, scaler)["snr_db"]
            print(f"{name:34} {tensor.elements:9}  {codec:9} {tensor.bits_per_element:5.1f}  {snr:7.2f}")


def train(options):
    text = draw_text(100_000, options.seed)
    alphabet = sorted(set(text))
    characters = torch.tensor([alphabet.index(character) for character in text])
    windows = characters.unfold(0, CONTEXT + 1, 1)
    torch.manual_seed(options.seed)
    model = Transformer(len(alphabet))
    virtual = terngrad.torch.VirtualWorkers(model, options.workers, options.codec, codec_for=options.codec_for, seed=options.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.learning_rate)
    parameters = dict(model.named_parameters())
    num_parameters = sum(parameter.numel() for parameter in parameters.values())
    ring_bytes = 2 * (options.workers - 1) / options.workers * 4 * num_parameters
    print(f"{num_parameters} parameters, {len(alphabet)} characters, {options.workers} workers", flush=True)
    for step in range(1, options.steps + 1):
        batch = windows[torch.randint(len(windows), (options.workers * options.batch_size,))]
        if step == options.steps:
            loss = model.loss(batch[:options.batch_size])
            of_worker_0 = dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values()))))
        loss = virtual.backward(model.loss, batch)
        optimizer.step()
        if step == 1 or step % options.log_steps == 0 or step == options.steps:
            sent = virtual.report().sent_bytes / options.workers
            print(f"step {step}: loss {loss:.4f}, {sent:.0f} bytes sent by a worker, 1/{ring_bytes / sent:.1f} of fp32", flush=True)
    print_layers(model, virtual, of_worker_0)


def rule_word(word):
    """Parses PATTERN=SPEC, where SPEC may contain =."""
    pattern, equals, spec = word.partition("=")
    if not (pattern and equals and spec):
        raise argparse.ArgumentTypeError(f"'{word}' is not PATTERN=SPEC")
    return pattern, spec


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=4, help="default 4")
    parser.add_argument("--codec", default="ternary:clip_factor=2.5", help="default ternary:clip_factor=2.5")
    parser.add_argument("--codec_for", type=rule_word, action="append", metavar="PATTERN=SPEC",
                        help="codec of parameters by name; the first that matches counts (default: embedding.*, position.* and "
                        "head.*, bf16)")
    parser.add_argument("--steps", type=int, default=100, help="default 100")
    parser.add_argument("--batch_size", type=int, default=4, help="windows of a worker in a step (default 4)")
    parser.add_argument("--learning_rate", type=float, default=0.002, help="default 0.002")
    parser.add_argument("--seed", type=int, default=1, help="of text, parameters and codecs' draws (default 1)")
    parser.add_argument("--log_steps", type=int, default=20, help="steps from line to line (default 20)")
    parser.add_argument("--threads", type=int, default=1, help="default 1")
    options = parser.parse_args()
    if options.workers < 2:
        parser.error("--workers: must be at least 2")
    for name in ("steps", "batch_size", "log_steps", "threads"):
        if getattr(options, name) < 1:
            parser.error(f"--{name}: must be at least 1")
    options.codec_for = dict(options.codec_for or [(f"{name}.*", "bf16") for name in ("embedding", "position", "head")])
    return options


def main(options):
    torch.set_num_threads(options.threads)
    try:
        train(options)
    except terngrad.InvalidArgument as error:
        print(f"char_transformer.py: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(parse()))
