#!/usr/bin/env python3
"""Tests the memories of the reference (memories.py): formulas, non-finite steps, telescoping."""

import fractions
import math
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from reference import testing  # noqa: E402  (the path comes first; it ends the test where numpy is missing)

import numpy as np  # noqa: E402

from reference import codecs, memories  # noqa: E402

WITH_FEEDBACK = ["terngrad_ef", "efsignsgd", "sign:scale=drive,block=64", "onebit", "onebit:group=block,block=64",
                 "qsgd", "qsgd:bits=2,block=128", "qsgd:norm=rms,sharing=max", "int8", "natural", "nuqsgd", "fp8",
                 "fp8:rounding=stochastic", "bf16", "ternary:rounding=nearest,levels=asymmetric,clip_factor=1.5",
                 "ternary:clip_factor=2"]


def with_feedback(text):
    return codecs.Spec(codecs.parse(text).codec, "ef")


class Formulas(unittest.TestCase):
    def test_error_feedback(self):
        memory = memories.ErrorFeedback()
        e, g, d = testing.floats(0.5, -1, 2**-24), testing.floats(1, 3, 1), testing.floats(1.25, 2.5, 1)
        self.assertEqual(memory.compensate(e, g).tolist(), [1.5, 2, 1])
        self.assertEqual(memory.commit(e, g, d).tolist(), [0.25, -0.5, 0])
        # Two roundings, fl(fl(beta e) + g): 3 x fp32(0.1) is rounded before 1 is added.
        memory = memories.ErrorFeedback(beta=0.1)
        product = np.float32(np.float32(0.1) * np.float32(3))
        self.assertEqual(memory.compensate(testing.floats(3), testing.floats(1)).tolist(),
                         [float(np.float32(product + np.float32(1)))])

    def test_momentum(self):
        memory = memories.Momentum(beta=0.5)
        self.assertEqual(memory.compensate(testing.floats(1, -4), testing.floats(3, 1)).tolist(), [2, -1.5])
        self.assertEqual(memory.commit(testing.floats(1, -4), testing.floats(3, 1), testing.floats(9, 9)).tolist(),
                         [2, -1.5])
        # 1 - beta is rounded from fp64: fp32(0.1), not 1 - fp32(0.9).
        self.assertEqual(memories.Momentum().compensate(testing.floats(0), testing.floats(1)).tolist(),
                         [float(np.float32(0.1))])

    def test_dgc(self):
        state = np.stack([testing.floats(1, 2), testing.floats(-4, 8)])
        g, d = testing.floats(0.5, 1), testing.floats(-0.5, 0)
        for nesterov, h in ((False, [-0.5, 7]), (True, [0.75, 5.5])):
            memory = memories.Dgc(momentum=0.5, nesterov=nesterov)
            self.assertEqual(memory.compensate(state, g).tolist(), h)
            # Momentum masking: elements that were sent lose their velocity.
            self.assertEqual(memory.commit(state, g, d).tolist(), [[h[0] + 0.5, h[1]], [0, 5]])
        exact = memories.Dgc(momentum=0.5, is_exact=True)
        self.assertEqual(exact.compensate(state, g).tolist(), [-1.5, 5])
        self.assertEqual(exact.commit(state, g, g)[1].tolist(), [-1.5, 5])
        self.assertTrue(codecs.memory_of("dgc", codecs.parse("fp32").codec).is_exact)
        with self.assertRaisesRegex(ValueError, "every velocity would be masked"):
            codecs.memory_of("dgc", codecs.parse("bf16").codec)
        bad = testing.floats(math.nan, 1)
        self.assertEqual(exact.commit(state, bad, d).tolist(), state.tolist())

    def test_loco_averages_what_is_left_out_in_8_bits(self):
        memory = memories.Loco(beta=0.5, reset=10)
        e = np.zeros(66, np.float32)
        d = np.zeros(66, np.float32)
        g = testing.floats(*([127, -1, 0.2, -0.3] + [0] * 60 + [3, 0.005]))
        once = memory.commit(e, 2 * g, d, 1)
        self.assertEqual(once[[0, 1, 2, 3, 64, 65]].tolist(), [127, -1, 0, 0, 3, 0])
        # In step 10 nothing is left of it.
        self.assertEqual(memory.compensate(once, g, 10).tolist(), g.tolist())
        self.assertEqual(memory.compensate(once, g, 11)[0], 254)
        self.assertEqual(memory.commit(once, 2 * g, d, 10).tolist(), once.tolist())
        self.assertEqual(memory.commit(once, 2 * g, d, 11)[0], 254)

    def test_ef21_sends_what_its_estimate_lacks(self):
        memory = memories.Ef21()
        state = memory.begin((2,))
        g, d = testing.floats(4, -2), testing.floats(3, 0)
        self.assertEqual(memory.compensate(state, g).tolist(), [4, -2])
        state = memory.commit(state, g, d)
        self.assertEqual(state.tolist(), [[3, 0], [4, -2]])
        self.assertEqual(memory.compensate(state, g).tolist(), [1, -2])
        self.assertEqual(memories.Ef21(beta=0.5).compensate(state, 2 * g).tolist(), [3, -3])
        self.assertEqual(memory.commit(state, testing.floats(math.nan, 1), d).tolist(), state.tolist())

    def test_ef21_gives_the_mean_of_the_estimates(self):
        spec = codecs.parse("topk:density=0.5")
        spec.memory = "ef21"
        workers = codecs.Workers(spec, (2,), 2)
        gradients = [testing.floats(4, 1), testing.floats(-1, 2)]
        for step, mean in enumerate(([2, 1], [1.5, 1.5], [1.5, 1.5])):
            workers.step(gradients, step)
            self.assertEqual(workers.estimate.tolist(), mean)

    def test_a_tensor_that_is_not_finite_keeps_its_state(self):
        state = testing.floats(0.5, 3e38)
        for memory in (memories.ErrorFeedback(), memories.Momentum(), memories.Loco()):
            for gradient in (testing.floats(math.nan, 1), testing.floats(1, math.inf)):
                self.assertEqual(memory.commit(state, gradient, np.zeros_like(state)).tolist(), state.tolist())
        # h may overflow though g is finite.
        self.assertEqual(memories.ErrorFeedback().commit(state, testing.floats(1, 3e38), testing.floats(0, 0)).tolist(),
                         state.tolist())

    def test_which_codec_has_which(self):
        self.assertEqual([codecs.parse(text).memory for text in ("qsgd", "onebit", "efsignsgd", "terngrad_ef", "signum",
                                                                 "signsgd", "sign")],
                         ["none", "ef", "ef", "ef", "momentum", "none", "none"])
        vote = codecs.parse("sign:reduce=vote").codec
        with self.assertRaisesRegex(ValueError, "a vote is no sum"):
            codecs.memory_of("ef", vote)
        self.assertIsInstance(codecs.memory_of("momentum", vote), memories.Momentum)
        self.assertIsNone(codecs.memory_of("none", vote))
        with self.assertRaisesRegex(ValueError, "expected one of none, ef, momentum, dgc, loco, ef21"):
            codecs.memory_of("adam", vote)
        with self.assertRaisesRegex(ValueError, "every velocity would be masked"):
            codecs.memory_of("dgc", vote)
        for memory in "ef", "dgc", "loco", "ef21":
            with self.assertRaisesRegex(ValueError, "leaves ever more out"):
                codecs.memory_of(memory, codecs.parse("randomk:scale=q").codec)


class Steps(unittest.TestCase):
    SHAPE = (30, 20)

    def gradients(self, step, num_workers=2):
        return [testing.gaussian(600, 100 * step + k).reshape(self.SHAPE) for k in range(num_workers)]

    def test_telescoping(self):
        """sum of d + e_T = sum of g + e_0 in exact arithmetic; fp32 adds one rounding of h and of e per step."""
        num_steps = 12
        for text in WITH_FEEDBACK:
            workers = codecs.Workers(with_feedback(text), self.SHAPE, 2)
            sent = [[fractions.Fraction(0)] * 600 for _ in range(2)]
            given = [[fractions.Fraction(0)] * 600 for _ in range(2)]
            bounds = np.zeros((2, 600))
            for step in range(num_steps):
                gradients = self.gradients(step)
                result = workers.step(gradients, step)
                for k in range(2):
                    sent[k] = [a + fractions.Fraction(float(b)) for a, b in zip(sent[k], result.decoded[k])]
                    given[k] = [a + fractions.Fraction(float(b)) for a, b in zip(given[k], gradients[k].reshape(-1))]
                    residual = workers.states[k].reshape(-1)
                    h = residual + result.decoded[k]
                    bounds[k] += (np.spacing(np.abs(h)) + np.spacing(np.abs(residual))) / 2
            for k in range(2):
                for d, e, g, bound in zip(sent[k], workers.states[k].reshape(-1), given[k], bounds[k]):
                    # Here h is e + d, rounded once more: twice the bound.
                    self.assertLessEqual(abs(d + fractions.Fraction(float(e)) - g), 2 * bound, text)

    def test_a_wrong_sign_of_the_residual_is_found(self):
        class Wrong(memories.ErrorFeedback):
            def commit(self, state, gradient, decoded):
                return -super().commit(state, gradient, decoded)

        workers = codecs.Workers(with_feedback("qsgd"), self.SHAPE, 1)
        workers.memory = Wrong()
        difference = np.zeros(self.SHAPE)
        for step in range(3):
            gradients = self.gradients(step, 1)
            difference += workers.step(gradients, step).decoded[0].reshape(self.SHAPE) - gradients[0].astype(np.float64)
        self.assertGreater(np.abs(difference + workers.states[0]).max(), 1e-3)

    def test_residuals_settle_where_simulations_put_them(self):
        # |e| over |g| on independent Gaussian gradients, to 5 %.
        for text, expected in (("efsignsgd", 0.77), ("terngrad_ef", 0.49), ("qsgd", 0.19)):
            workers = codecs.Workers(with_feedback(text), (8192,), 1)
            norms = []
            for step in range(40):
                workers.step([testing.gaussian(8192, 1000 + step)], step)
                norms.append(math.sqrt(testing.square(workers.states[0]) / 8192))
            self.assertAlmostEqual(np.mean(norms[20:]) / expected, 1, delta=0.05, msg=text)

    def test_signum_votes_on_momenta(self):
        spec = codecs.parse("signum")
        workers = codecs.Workers(spec, self.SHAPE, 3, beta=0.5)
        first, second = self.gradients(0, 3), self.gradients(1, 3)
        workers.step(first, 0)
        momenta = [np.float32(0.5) * (np.float32(0.5) * a) + np.float32(0.5) * b for a, b in zip(first, second)]
        expected = np.sign(sum(np.sign(momentum) for momentum in momenta)).reshape(-1)
        self.assertEqual(workers.step(second, 1).mean.tolist(), expected.tolist())

    def test_the_worker_that_is_not_finite_keeps_its_residual_and_sends_zeros(self):
        workers = codecs.Workers(with_feedback("qsgd"), self.SHAPE, 2)
        workers.step(self.gradients(0), 0)
        before = [state.copy() for state in workers.states]
        gradients = self.gradients(1)
        gradients[1][3, 4] = math.nan
        result = workers.step(gradients, 1)
        self.assertEqual(workers.states[1].tobytes(), before[1].tobytes())
        self.assertNotEqual(workers.states[0].tobytes(), before[0].tobytes())
        self.assertEqual(np.abs(result.decoded[1]).max(), 0)


if __name__ == "__main__":
    unittest.main()
