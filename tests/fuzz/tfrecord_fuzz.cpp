// Input: a TFRecord file. Every record is read sequentially and again by its offset.
#include <algorithm>
#include <vector>

#include "datasets/formats/tfrecord.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace terngrad;
  const std::span<const std::uint8_t> file(data, size);
  const auto read = [file](std::uint64_t offset, std::span<std::uint8_t> bytes) {
    fuzz::require(offset <= file.size() && bytes.size() <= file.size() - offset);
    std::ranges::copy(file.subspan(static_cast<std::size_t>(offset), bytes.size()), bytes.begin());
  };
  fuzz::survive<DataError>([&] {
    TfRecordReader reader("input", size, read);
    std::vector<std::uint8_t> record;
    std::vector<std::uint8_t> again;
    while (reader.next(record)) {
      reader.read_at(reader.offset(), record.size(), again);
      fuzz::require(again == record && record.size() + kTfRecordFrameBytes <= size);
    }
  });
  return 0;
}
