// The text of a codec spec, as --codec and --codec_for give it.
#include "compress/codecs/codec_spec.h"

#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace terngrad;
  fuzz::survive<InvalidArgument>([&] {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const CodecSpec spec = parse_codec_spec(text);
    fuzz::require(to_string(spec) == text);
    SpecReader reader(spec);
    const double number = reader.number("number", 0, -1, 1, "");
    fuzz::require(number >= -1 && number <= 1);
    const std::int64_t integer = reader.integer("integer", 64, 0, 1 << 20, "", 64);
    fuzz::require(integer >= 0 && integer <= 1 << 20 && integer % 64 == 0);
    const bool flag = reader.flag("flag", false, "");
    reader.require_for("number", flag, "flag=true");
    reader.finish();
    SpecReader again(parse_codec_spec(to_string(reader.canonical())));
    fuzz::require(again.number("number", 0, -1, 1, "") == number);
    fuzz::require(again.integer("integer", 64, 0, 1 << 20, "", 64) == integer);
    fuzz::require(again.flag("flag", false, "") == flag);
    again.require_for("number", flag, "flag=true");
    again.finish();
    fuzz::require(again.canonical() == reader.canonical());
  });
  return 0;
}
