// Writes the seed inputs of the fuzz targets, small files of every kind, to DIR/<target>/<name>.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "datasets/formats/image_example.h"
#include "datasets/formats/tfrecord.h"
#include "datasets/records/record_index.h"
#include "datasets/sets/cifar10.h"
#include "tests/datasets/image_files.h"
#include "tests/datasets/npy_files.h"
#include "tests/fuzz/fuzz_codec.h"
#include "tests/fuzz/fuzz_message.h"
#include "trainers/checkpoint/checkpoint.h"
#include "trainers/inspect/encoded_file.h"
#include "trainers/inspect/gradient_file.h"
#include "trainers/io/safetensors.h"

namespace terngrad {
namespace {

Bytes as_bytes(const std::string& text) { return {text.begin(), text.end()}; }

class Corpus {
 public:
  explicit Corpus(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void add(const std::string& target, const std::string& name, const Bytes& bytes) {
    std::filesystem::create_directories(folder_ / target);
    std::ofstream stream(folder_ / target / name, std::ios::binary);
    stream.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!stream.flush()) throw std::runtime_error("cannot write " + (folder_ / target / name).string());
  }
  /// Adds an input that begins with a choice byte.
  void add(const std::string& target, const std::string& name, std::uint8_t choice, Bytes bytes) {
    bytes.insert(bytes.begin(), choice);
    add(target, name, bytes);
  }

 private:
  std::filesystem::path folder_;
};

void add_data_files(Corpus& corpus) {
  corpus.add("idx", "images", 0, {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 1, 2, 3, 4});
  corpus.add("idx", "labels", 1, {0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 9});
  corpus.add("tfrecord", "one", as_bytes(tfrecord("123456789")));
  corpus.add("tfrecord", "three", as_bytes(tfrecord("first") + tfrecord("") + tfrecord(std::string(300, 'x'))));
  const ImageExample boxed{.encoded = "\xff\xd8 JPEG",
                           .height = 2,
                           .width = 3,
                           .label = 5,
                           .class_text = "jay",
                           .synset = "n01580077",
                           .filename = "a.JPEG",
                           .boxes = {{0.25f, 0.5f, 0.75f, 1}}};
  corpus.add("image_example", "boxed", as_bytes(serialize_image_example(boxed)));
  const std::vector<RecordIndex::Shard> shards = {{20, {{0, 4, 1}}}, {40, {{0, 4, 0}, {20, 4, 2}}}};
  corpus.add("record_index", "two", as_bytes(RecordIndex("two", shards).to_bytes()));
  corpus.add("record_index", "empty", as_bytes(RecordIndex().to_bytes()));
  const ImageExample raw{.encoded = std::string(18, 'x'), .is_raw = true, .height = 2, .width = 3};
  corpus.add("image_example", "raw", as_bytes(serialize_image_example(raw)));
  corpus.add("npy", "u1", npy_file(npy_header("|u1", "(2, 3)"), {1, 2, 3, 4, 5, 6}));
  corpus.add("npy", "i8", npy_file(npy_header("<i8", "(1,)"), {7, 0, 0, 0, 0, 0, 0, 0}, 2));
  corpus.add("npy", "f4", npy_file(npy_header("<f4", "()"), Bytes(4), 3));
  corpus.add("compressed", "gz", 0, gzip(counting_bytes(300)));
  corpus.add("compressed", "xz", 1, xz(counting_bytes(300)));
  Bytes record = counting_bytes(kCifar10RecordBytes);
  record[0] = 9;
  corpus.add("cifar10", "record", 23, record);
  corpus.add("cifar10", "flat", 0, Bytes(kCifar10RecordBytes, 0));
}

void add_images(Corpus& corpus) {
  corpus.add("jpeg", "colour", jpeg(smooth_pixels(16, 16, 3), 16, 16));
  corpus.add("jpeg", "progressive", jpeg(smooth_pixels(16, 16, 3), 16, 16, {.progressive = true}));
  corpus.add("jpeg", "grey", jpeg(smooth_pixels(9, 7, 1), 9, 7, {.colours = JCS_GRAYSCALE, .channels = 1}));
  corpus.add("jpeg", "cmyk", jpeg(counting_bytes(8 * 8 * 4), 8, 8, {.colours = JCS_CMYK, .channels = 4}));
  corpus.add("png", "colour", png({{1, 2, 3, 4, 5, 6}, {7, 8, 9, 10, 11, 12}}, 2));
  corpus.add("png", "interlaced", png(std::vector<Bytes>(9, counting_bytes(27)), 9, {.interlaced = true}));
  corpus.add("png", "grey16", png({{1, 2, 3, 4}}, 2, {.colour_type = PNG_COLOR_TYPE_GRAY, .bit_depth = 16}));
  corpus.add("png", "palette",
             png({{0b01000000}}, 2,
                 {.colour_type = PNG_COLOR_TYPE_PALETTE, .bit_depth = 1, .palette = {{1, 2, 3}, {4, 5, 6}}}));
}

void add_codec_specs(Corpus& corpus) {
  const auto add = [&](const std::string& name, const std::string& spec) {
    corpus.add("codec_spec", name, Bytes(spec.begin(), spec.end()));
  };
  add("name", "fp32");
  add("options", "codec:flag=true,integer=128,number=-0.25");
  add("no_effect", "codec:number=1e-3");
  add("unknown_key", "codec:bits=4");
  add("refused", "codec:integer=65");
  add("no_spec", "codec:integer");
  add("ternary",
      "ternary:clip_factor=2.5,scaler=original,sharing=none,clip_scope=local,scope=block,block=64,format=t5");
}

void add_message(Corpus& corpus) {
  MessageWriter writer;
  writer.begin(MessageKind::kGradient, fuzz::kMessageContext, 5, 2, max_message_bytes(2, 2, 16));
  const float scaler = 2.0f;
  std::memset(writer.add({0, 4096, 16}, 3, 1, {&scaler, 1}, 4), 0x41, 4);
  std::memset(writer.add({2, 0, 3}, 1, 0, {}, 12), 0, 12);
  const std::span<const std::uint8_t> message = writer.finish();
  corpus.add("message", "as_it_is", 0, {message.begin(), message.end()});
  corpus.add("message", "repaired", 1, {message.begin(), message.end()});
}

/// Adds for each exchange the message to tamper with, and an input that modifies its codes.
void add_exchanges(Corpus& corpus) {
  for (unsigned choice = 0; choice < 256; ++choice) {
    Bytes message;
    std::vector<float> mean;
    fuzz::tampered(
        fuzz::exchange_choice(static_cast<std::uint8_t>(choice)),
        [&](std::span<const std::uint8_t> sent) {
          message.assign(sent.begin(), sent.end());
          return message;
        },
        mean);
    if (message.empty()) continue;  // no such collective
    const std::string name = std::to_string(choice);
    message.insert(message.begin(), {static_cast<std::uint8_t>(choice), 1});
    corpus.add("exchange", "message_" + name, message);
    corpus.add("exchange", "codes_" + name, {static_cast<std::uint8_t>(choice), 2, 0, 0, 0, 0, 0, 0, 0, 0, 1});
  }
}

/// Adds for each codec and each of its exchanges the message to tamper with; then payloads alone.
void add_codecs(Corpus& corpus) {
  for (std::size_t codec = 0; codec < fuzz::fuzzed_specs().size(); ++codec) {
    for (unsigned exchange = 0; exchange < 8; ++exchange) {
      const auto first = static_cast<std::uint8_t>(codec);
      const auto second = static_cast<std::uint8_t>(exchange);
      Bytes message;
      std::vector<float> mean;
      fuzz::tampered_exchange(
          fuzz::codec_choice(first, second),
          [&](std::span<const std::uint8_t> sent) {
            message.assign(sent.begin(), sent.end());
            return message;
          },
          mean);
      if (message.empty()) continue;  // no such collective
      const std::string name = std::to_string(codec) + "_" + std::to_string(exchange);
      message.insert(message.begin(), {first, second, 1});
      corpus.add("codec", "message_" + name, message);
      corpus.add("codec", "changes_" + name, {first, second, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1});
    }
    // Zeros of the payload's length for 10000 elements, and for 3.
    for (const std::uint8_t exchange : {std::uint8_t{0}, std::uint8_t{8}}) {
      const fuzz::CodecChoice choice = fuzz::codec_choice(static_cast<std::uint8_t>(codec), exchange);
      const std::int64_t count = fuzz::message_layout().segment(choice.segment).num_elements;
      const std::int64_t bytes =
          make_codec(choice.spec, {})->max_payload_bytes({choice.segment, 0, count}, PayloadForm::kNatural);
      Bytes codes(static_cast<std::size_t>(bytes) + 3, 0);
      codes[0] = static_cast<std::uint8_t>(codec);
      codes[1] = exchange;
      codes[2] = 3;
      corpus.add("codec", "codes_" + std::to_string(codec) + "_" + std::to_string(exchange), codes);
    }
  }
}

void add_checkpoint(Corpus& corpus) {
  Layout layout;
  layout.add("w", {2, 3});
  const std::vector<float> values(static_cast<std::size_t>(layout.flat_elements()), 0.5f);
  CheckpointView view;
  view.state = {
      .step = 7, .net = "n", .dataset = "d", .optimizer = "o", .num_workers = 2, .seed = 1, .extra_metadata = {}};
  view.layout = &layout;
  view.groups = {{.name = "parameters", .values = values}};
  const TemporaryFolder folder;
  std::ifstream stream(save_checkpoint(folder.path(), view), std::ios::binary);
  const std::string content((std::istreambuf_iterator<char>(stream)), {});
  corpus.add("checkpoint", "checkpoint", {content.begin(), content.end()});
}

Bytes bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

/// Adds gradient files of two workers, and one worker's gradient encoded by every codec.
void add_gradients(Corpus& corpus) {
  const std::vector<std::int64_t> shape = {2, 3};
  const std::vector<float> values = {1, -2, 0.5f, 0, 3, -0.25f};
  const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
  const std::vector<TensorRecord> records = {{"worker-0000/w", TensorType::kF32, shape, bytes},
                                             {"worker-0001/w", TensorType::kF32, shape, bytes}};
  const std::string safetensors = SafetensorsImage(records, {}).to_string();
  corpus.add("gradient", "npy", 0, npy_file(npy_header("<f4", "(1,)"), {0, 0, 0x80, 0x3f}));
  corpus.add("gradient", "safetensors", 1, bytes_of(safetensors));
  const Bytes content = bytes_of(safetensors);
  const GradientFile gradients = parse_gradient_file(content, "two.safetensors");
  for (const std::string& spec : fuzz::fuzzed_specs()) {
    std::string name = spec;
    std::ranges::replace(name, ':', '_');
    const std::string file =
        encode_file(gradients, {.codec = spec, .num_workers = 2, .seed = 1, .step = 3, .worker = 1});
    corpus.add("encoded", name, 0, bytes_of(file));
    corpus.add("encoded", name + "_repaired", 1, bytes_of(file));
  }
}

}  // namespace
}  // namespace terngrad

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s DIR\n", argv[0]);
    return 2;
  }
  terngrad::Corpus corpus(argv[1]);
  terngrad::add_data_files(corpus);
  terngrad::add_images(corpus);
  terngrad::add_codec_specs(corpus);
  terngrad::add_message(corpus);
  terngrad::add_exchanges(corpus);
  terngrad::add_codecs(corpus);
  terngrad::add_checkpoint(corpus);
  terngrad::add_gradients(corpus);
  return 0;
}
