// Input: choice 0: a message; 1: a message whose checksums are repaired first, to reach the checks behind them.
#include "compress/wire/wire_format.h"

#include <vector>

#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_message.h"
#include "tests/fuzz/repair_message.h"

namespace terngrad {
namespace {

/// Reads every byte that the parser returned.
void touch(const Message& message) {
  const Layout& layout = fuzz::message_layout();
  unsigned sum = 0;
  for (const Message::Record& record : message.records) {
    const Slice& slice = record.encoded.slice;
    fuzz::require(slice.segment >= 0 && slice.segment < layout.num_segments());
    fuzz::require(slice.first >= 0 && slice.count >= 0 &&
                  slice.first + slice.count <= layout.segment(slice.segment).num_elements);
    for (const float scaler : record.encoded.scalers) sum += scaler > 0 ? 1u : 0u;
    for (const std::uint8_t byte : record.encoded.payload) sum += byte;
  }
  volatile unsigned sink = sum;
  static_cast<void>(sink);
}

}  // namespace
}  // namespace terngrad

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace terngrad;
  std::span input(data, size);
  const bool repair = fuzz::take_choice(input) % 2 == 1;
  // A copy of exactly this size, so that sanitizers detect an overrun; new gives the alignment of messages.
  std::vector<std::uint8_t> copy(input.begin(), input.end());
  if (repair) fuzz::repair_checksums(copy);
  fuzz::survive<CommunicationError>([&] {
    Message message;
    read_message(copy, MessageKind::kGradient, fuzz::kMessageContext, fuzz::message_layout(), message);
    touch(message);
  });
  fuzz::survive<CommunicationError>([&] {
    for (const MessageOutline::Record& record : outline_message(copy).records) {
      fuzz::require(record.scalers_at + 4 * std::uint64_t{record.num_scalers} <= record.codes_at &&
                    record.codes_at + record.bytes <= copy.size());
    }
  });
  return 0;
}
