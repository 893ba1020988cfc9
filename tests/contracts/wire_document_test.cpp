// Compares the worked example of docs/wire-format.md, read from the document, with the encoder's messages.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "support/worker_messages.h"

namespace terngrad::wire_document_test {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// Hex dumps of the section "Example", in order. A line has an offset and up to 16 bytes; a dump starts at offset 0000.
std::vector<Bytes> dumps_of_the_example() {
  std::ifstream file("docs/wire-format.md");
  std::vector<Bytes> dumps;
  std::string line;
  bool in_example = false;
  while (std::getline(file, line)) {
    if (line == "## Example") in_example = true;
    if (!in_example || line.size() < 10 || line.substr(0, 4) != "    " || line.substr(8, 2) != "  ") continue;
    std::istringstream words(line);
    std::string offset;
    words >> offset;
    if (offset.find_first_not_of("0123456789abcdef") != std::string::npos) continue;
    if (offset == "0000") dumps.emplace_back();
    for (std::string byte; words >> byte;)
      dumps.back().push_back(static_cast<std::uint8_t>(std::stoul(byte, nullptr, 16)));
  }
  return dumps;
}

Bytes to_bytes(std::span<const std::uint8_t> message) { return {message.begin(), message.end()}; }

TEST(WireDocument, ExampleIsWhatTheCodeWrites) {
  const std::vector<Bytes> documented = dumps_of_the_example();
  ASSERT_EQ(documented.size(), 2u) << "docs/wire-format.md must be readable from the working directory";

  Layout layout;
  layout.add("conv/weights", {3, 6});
  layout.add("logits/biases", {3}, true);
  CodecPlanOptions options;
  options.context.num_workers = 2;
  const CodecPlan plan(layout, options);
  std::vector<float> weights(18);
  for (int i = 0; i < 18; ++i) weights[static_cast<std::size_t>(i)] = static_cast<float>(i - 9) / 8.0f;
  std::vector<float> biases = {0.5f, -0.25f, 2.0f};
  const std::vector<float*> tensors = {weights.data(), biases.data()};
  const TensorTable gradient(layout, tensors);
  const MessageContext context{0x1122334455667788u, plan.fingerprint(), 3};

  testing::WorkerMessages worker(layout, plan, 1, 1);
  Stream stream(Device::cpu(), 1);
  worker.measure(gradient, context, stream);
  EXPECT_EQ(to_bytes(worker.scalers_message()), documented[0]);
  const std::vector<float> shared = {1.5f, 0.0f};
  EXPECT_EQ(to_bytes(worker.gradient_message(whole_segments(layout), shared, context, stream)), documented[1]);
}

}  // namespace
}  // namespace terngrad::wire_document_test
