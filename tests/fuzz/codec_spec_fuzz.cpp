// Input: a codec spec as for --codec and --codec_for. It is parsed alone, by a reader with keys of every type, and by
// the codecs of the registry.
#include "compress/plan/codec_registry.h"

#include "tests/fuzz/fuzz_input.h"

namespace terngrad {
namespace {

struct Values {
  double number = 0;
  std::int64_t integer = 64;
  bool flag = false;
  friend bool operator==(const Values&, const Values&) = default;
};

Values read_values(SpecReader& reader) {
  Values v;
  v.number = reader.number("number", v.number, -1, 1, "");
  v.integer = reader.integer("integer", v.integer, 0, 1 << 20, "", 64);
  v.flag = reader.flag("flag", v.flag, "");
  reader.require_for("number", v.flag, "flag=true");
  reader.finish();
  return v;
}

void read_by_itself(std::string_view text) {
  const CodecSpec spec = parse_codec_spec(text);
  fuzz::require(to_string(spec) == text);
  SpecReader reader(spec);
  const Values values = read_values(reader);
  fuzz::require(values.number >= -1 && values.number <= 1);
  fuzz::require(values.integer >= 0 && values.integer <= 1 << 20 && values.integer % 64 == 0);
  SpecReader again(parse_codec_spec(to_string(reader.canonical())));
  fuzz::require(read_values(again) == values);
  fuzz::require(again.canonical() == reader.canonical());
}

void read_by_its_codec(std::string_view text) {
  const CodecSpec canonical = canonical_codec_spec(text);
  fuzz::require(canonical_codec_spec(to_string(canonical)) == canonical);
  fuzz::require(make_codec(text, {})->options_text() == make_codec(to_string(canonical), {})->options_text());
}

}  // namespace
}  // namespace terngrad

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace terngrad;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  fuzz::survive<InvalidArgument>([&] { read_by_itself(text); });
  fuzz::survive<InvalidArgument>([&] { read_by_its_codec(text); });
  return 0;
}
