#include "trainers/inspect/encoded_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compress/plan/codec_registry.h"
#include "kernels/runtime/errors.h"
#include "tests/support/bits.h"
#include "tests/trainers/gradient_files.h"
#include "tests/trainers/temporary_directory.h"

namespace terngrad::encoded_file_test {
namespace {

using testing::bits_of;
using ::testing::HasSubstr;
using testing::TemporaryDirectory;

GradientFile two_workers(const TemporaryDirectory& folder) {
  testing::write_step(folder / "step.safetensors", 1);
  return read_gradient_file(folder / "step.safetensors");
}

DecodedFile decoded(const TemporaryDirectory& folder, const std::string& bytes) {
  return decode_file(folder.write("a.tgrd", bytes));
}

TEST(EncodedFile, ComesBackForEveryCodec) {
  const TemporaryDirectory folder;
  const GradientFile gradients = two_workers(folder);
  std::vector<std::string> codecs = codec_names();
  codecs.emplace_back("qsgd:rotate=64");  // decoding needs the seed
  for (const std::string& codec : codecs) {
    SCOPED_TRACE(codec);
    const EncodedFileKeys keys{.codec = codec, .num_workers = 2, .seed = 7, .step = 12, .worker = 1};
    const DecodedFile found = decoded(folder, encode_file(gradients, keys));
    EXPECT_EQ(found.keys.codec, to_string(canonical_codec_spec(codec)));
    EXPECT_EQ(found.keys.num_workers, 2);
    EXPECT_EQ(found.keys.seed, 7u);
    EXPECT_EQ(found.keys.step, 12u);
    EXPECT_EQ(found.keys.worker, 1);
    EXPECT_EQ(found.gradients.layout.fingerprint(), gradients.layout.fingerprint());
    ASSERT_EQ(found.gradients.workers.size(), 1u);
    if (codec != "fp32") continue;
    EXPECT_EQ(bits_of(found.gradients.workers[0].span()), bits_of(gradients.workers[1].span()));
  }
}

TEST(EncodedFile, BeginsWithOneLineOfJson) {
  const TemporaryDirectory folder;
  const std::string bytes = encode_file(two_workers(folder), {.codec = "qsgd:bits=2", .num_workers = 2});
  const std::size_t end = bytes.find('\n');
  EXPECT_EQ((end + 1) % 8, 0u);
  EXPECT_EQ(bytes.substr(end + 1, 4), "TGRD");
  const auto header = nlohmann::json::parse(bytes.substr(0, end));
  EXPECT_EQ(header["format"], "terngrad-encoded-gradient");
  EXPECT_EQ(header["version"], 1);
  EXPECT_EQ(header["codec"], to_string(canonical_codec_spec("qsgd:bits=2")));
  EXPECT_EQ(header["tensors"][0], (nlohmann::json{{"name", "weights"}, {"shape", {64, 20}}}));
}

TEST(EncodedFile, DrawsByItsKeysAndSharesScalers) {
  const TemporaryDirectory folder;
  const GradientFile gradients = two_workers(folder);
  const EncodedFileKeys keys{.codec = "ternary", .num_workers = 2};
  const auto bits = [&](const EncodedFileKeys& of, const GradientFile& from) {
    return bits_of(decoded(folder, encode_file(from, of)).gradients.workers[0].span());
  };
  EXPECT_EQ(bits(keys, gradients), bits(keys, gradients));
  for (const EncodedFileKeys& other : {EncodedFileKeys{.codec = "ternary", .num_workers = 2, .seed = 2},
                                       EncodedFileKeys{.codec = "ternary", .num_workers = 2, .step = 1},
                                       EncodedFileKeys{.codec = "ternary", .num_workers = 2, .worker = 1}}) {
    EXPECT_NE(bits(other, gradients), bits(keys, gradients));
  }
  // Both files have the larger of the workers' scalers.
  const auto scaler = [&](int worker) {
    float largest = 0;
    const DecodedFile file =
        decoded(folder, encode_file(gradients, {.codec = "ternary", .num_workers = 2, .worker = worker}));
    for (const float value : file.gradients.workers[0].span().first(1280))
      largest = std::max(largest, std::fabs(value));
    return largest;
  };
  EXPECT_EQ(scaler(0), scaler(1));
}

TEST(EncodedFile, AnyDamageIsFound) {
  const TemporaryDirectory folder;
  testing::write_tensors(folder / "a.safetensors", {{"a", {3}, {1, -2, 0.5f}}, {"none", {0}, {}}});
  const std::string whole =
      encode_file(read_gradient_file(folder / "a.safetensors"), {.codec = "ternary", .num_workers = 3, .worker = 2});
  EXPECT_NO_THROW(decoded(folder, whole));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THROW(decoded(folder, whole.substr(0, length)), DataError) << length;
  }
  EXPECT_THROW(decoded(folder, whole + '\0'), DataError);
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    EXPECT_THROW(decoded(folder, damaged), DataError) << "byte " << bit / 8 << ", bit " << bit % 8;
  }
}

TEST(EncodedFile, FieldsOfItsFirstLineAreNamed) {
  const TemporaryDirectory folder;
  testing::write_tensors(folder / "a.safetensors", {{"a", {3}, {1, -2, 0.5f}}});
  const std::string whole = encode_file(read_gradient_file(folder / "a.safetensors"), {.codec = "fp8"});
  const std::size_t end = whole.find('\n');
  const auto refusal = [&](const char* field, const nlohmann::json& value) {
    auto header = nlohmann::json::parse(whole.substr(0, end));
    header[field] = value;
    std::string line = header.dump();
    line.resize((line.size() + 8) / 8 * 8 - 1, ' ');
    return testing::message_of<DataError>([&] { decoded(folder, line + whole.substr(end)); });
  };
  EXPECT_THAT(refusal("format", "other"), HasSubstr("format"));
  EXPECT_THAT(refusal("version", 2), HasSubstr("version"));
  EXPECT_THAT(refusal("codec", "nothing"), HasSubstr("field codec"));
  EXPECT_THAT(refusal("codec", 3), HasSubstr("field codec"));
  EXPECT_THAT(refusal("num_nodes", 0), HasSubstr("num_nodes"));
  EXPECT_THAT(refusal("num_nodes", 1 << 20), HasSubstr("num_nodes"));
  EXPECT_THAT(refusal("seed", -1), HasSubstr("seed"));
  EXPECT_THAT(refusal("step", std::uint64_t{1} << 40), HasSubstr("step"));
  EXPECT_THAT(refusal("worker", 1), HasSubstr("worker"));
  EXPECT_THAT(refusal("tensors", nlohmann::json::array()), HasSubstr("tensors"));
  EXPECT_THAT(refusal("tensors", {{{"name", "a"}, {"shape", {-3}}}}), HasSubstr("tensors"));
  EXPECT_THAT(refusal("tensors", {{{"name", "a"}, {"shape", {1 << 20, 1 << 20}}}}), HasSubstr("2147483648"));
  EXPECT_THAT(refusal("more", 1), HasSubstr("9 fields"));
  EXPECT_THAT(testing::message_of<DataError>([&] { decoded(folder, "\x93NUMPY and\n more"); }),
              HasSubstr("no .tgrd file"));
}

TEST(EncodedFile, KeysMustFitTheGradients) {
  const TemporaryDirectory folder;
  const GradientFile gradients = two_workers(folder);
  EXPECT_THROW(encode_file(gradients, {.codec = "fp32", .num_workers = 3}), InvalidArgument);
  EXPECT_THROW(encode_file(gradients, {.codec = "fp32", .num_workers = 2, .worker = 2}), InvalidArgument);
  EXPECT_THROW(encode_file(gradients, {.codec = "nothing", .num_workers = 2}), InvalidArgument);
  EXPECT_THROW(encode_file(gradients, {.codec = "fp32", .num_workers = 2, .step = std::uint64_t{1} << 40}),
               InvalidArgument);
  testing::write_tensors(folder / "large.safetensors", {{"a", {1}, {3e38f}}});
  EXPECT_THAT(testing::message_of<DataError>(
                  [&] { encode_file(read_gradient_file(folder / "large.safetensors"), {.codec = "qsgd"}); }),
              HasSubstr("tensor 'a'"));
}

}  // namespace
}  // namespace terngrad::encoded_file_test
