"""Uses libterngrad.so from Python by ctypes, without compiling: encodes a gradient and lists the codecs.

Arguments: the library."""

import array
import ctypes
import json
import sys
import unittest

LIBRARY = None
TG_OK, TG_INVALID_ARGUMENT = 0, 1


class Array(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("count", ctypes.c_int64), ("type", ctypes.c_int32), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("flags", ctypes.c_int32)]

    @classmethod
    def of(cls, floats):
        return cls(floats.buffer_info()[0], len(floats), 0, 1, 0, 0)


class CtypesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.loaded = ctypes.CDLL(LIBRARY)
        for name in ("tg_last_error", "tg_version", "tg_status_name"):
            getattr(cls.loaded, name).restype = ctypes.c_char_p

    def call(self, name, *arguments):
        status = getattr(self.loaded, name)(*arguments)
        self.assertEqual(status, TG_OK, self.loaded.tg_last_error())

    def make(self, name, *arguments):
        handle = ctypes.c_void_p()
        self.call(f"tg_{name}_create", *arguments, ctypes.byref(handle))
        self.addCleanup(getattr(self.loaded, f"tg_{name}_destroy"), handle)
        return handle

    def test_a_gradient_becomes_a_message_and_comes_back(self):
        count = 3000
        layout = self.make("layout")
        self.call("tg_layout_add", layout, b"fc/weights", (ctypes.c_int64 * 2)(30, 100), 2, 0, None)
        plan = self.make("plan", layout, 1, b"codec=ternary clip_factor=2.5")
        encoder = self.make("encoder", plan, 0, b"seed=4")
        gradient = array.array("f", (((i * 7919) % 101 - 50) / 50 for i in range(count)))
        message, size = ctypes.POINTER(ctypes.c_uint8)(), ctypes.c_int64()
        step = ctypes.c_uint64(9)
        self.call("tg_encoder_measure", encoder, ctypes.byref(Array.of(gradient)), 1, step, None)
        self.call("tg_encoder_encode", encoder, ctypes.byref(Array.of(gradient)), 1, ctypes.byref(message), ctypes.byref(size), None)
        self.assertLess(size.value, 4 * count / 10)
        self.assertEqual(bytes(message[0:4]), b"TGRD")
        sent = array.array("f", bytes(4 * count))
        worker = ctypes.c_int32(-1)
        self.call("tg_message_decode", plan, ctypes.c_uint64(0), step, message, size, ctypes.byref(Array.of(sent)), 1,
                  ctypes.byref(worker), None)
        self.assertEqual(worker.value, 0)
        scaler = max(sent)
        self.assertEqual(set(sent), {-scaler, 0.0, scaler})
        for sent_value, value in zip(sent, gradient):
            self.assertIn(sent_value, (0, scaler if value > 0 else -scaler))

    def test_errors_have_words(self):
        handle = ctypes.c_void_p()
        layout = self.make("layout")
        self.assertEqual(self.loaded.tg_plan_create(layout, 1, b"codec=tern", ctypes.byref(handle)), TG_INVALID_ARGUMENT)
        self.assertIn(b"ternary", self.loaded.tg_last_error())
        self.assertEqual(self.loaded.tg_status_name(TG_INVALID_ARGUMENT), b"TG_INVALID_ARGUMENT")

    def test_the_list_of_codecs_is_json(self):
        needed = ctypes.c_int64()
        self.call("tg_codec_list", None, ctypes.c_int64(0), ctypes.byref(needed))
        text = ctypes.create_string_buffer(needed.value)
        self.call("tg_codec_list", text, needed, None)
        found = json.loads(text.value.decode())
        codecs = {codec["name"]: codec for codec in found["codecs"]}
        self.assertIn("clip_factor", [key["name"] for key in codecs["ternary"]["keys"]])
        self.assertEqual(codecs["qsgd"]["bits_per_element"], [2, 4, 8])
        self.assertIs(codecs["fp32"]["sums_as_float"], True)
        self.assertIn("rounding=nearest", codecs["ternary"]["unbiased"]["changed_by"])
        self.assertIn("efsignsgd", [preset["name"] for preset in found["presets"]])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("ctypes_test.py: usage: ctypes_test.py LIBRARY")
    LIBRARY = sys.argv.pop(1)
    unittest.main()
