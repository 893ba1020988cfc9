#include <memory>
#include <vector>

#include "bench/harness.h"
#include "bench/subjects.h"
#include "kernels/codes/ternarize.h"
#include "kernels/codes/ternary_pack.h"

namespace terngrad::bench {
namespace {

constexpr int kWorkers = 8;

Subject unpack(std::int64_t n, TernaryFormat format) {
  auto codes = std::make_shared<std::vector<std::int8_t>>(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < codes->size(); ++i)
    (*codes)[i] = static_cast<std::int8_t>(static_cast<int>(i * 7919 % 3) - 1);
  auto payload = std::make_shared<Buffer<std::uint8_t>>(payload_bytes(format, n, kWorkers));
  const std::int64_t bytes = pack_codes(*codes, format, kWorkers, payload->span());
  auto out = std::make_shared<std::vector<std::int16_t>>(codes->size());
  Subject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = static_cast<double>(bytes) + 2.0 * static_cast<double>(n);
  subject.prepare = [=](Stream&) -> std::function<void()> {
    return [=] { unpack_codes({format, {payload->data(), static_cast<std::size_t>(bytes)}, n, kWorkers}, 0, *out); };
  };
  subject.check = [=] {
    const int bias = format == TernaryFormat::kLanes ? 1 - kWorkers : 0;
    for (std::size_t i = 0; i < codes->size(); ++i) {
      if ((*out)[i] != (*codes)[i] + bias) return false;
    }
    return true;
  };
  return subject;
}

Subject add_lane_words(std::int64_t n) {
  const auto words = static_cast<std::size_t>(payload_bytes(TernaryFormat::kLanes, n, kWorkers) / 8);
  auto a = std::make_shared<std::vector<std::uint64_t>>(words, 1);
  auto b = std::make_shared<std::vector<std::uint64_t>>(words, 3);
  Subject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = 24.0 * static_cast<double>(words);
  subject.prepare = [=](Stream&) -> std::function<void()> { return [=] { add_lanes(*a, *b); }; };
  subject.check = [=] { return a->front() == 4 && a->back() == 4; };
  return subject;
}

}  // namespace

void register_unpack() {
  for (const std::int64_t n : sizes()) {
    if (n > 1 << 23) continue;  // a tile at a time is what aggregation unpacks
    for (const TernaryFormat format : {TernaryFormat::kT2, TernaryFormat::kT5, TernaryFormat::kTMask,
                                       TernaryFormat::kTrans, TernaryFormat::kLanes}) {
      register_subject(bench_name("unpack_" + to_string(format), "i16", n, 1), n, 1, [=] { return unpack(n, format); });
    }
    register_subject(bench_name("add_lanes", "u64", n, 1), n, 1, [n] { return add_lane_words(n); });
  }
}

}  // namespace terngrad::bench
