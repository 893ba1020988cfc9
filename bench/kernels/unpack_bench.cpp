// Unpacking of codes, packing of sums, and additions of lanes.
#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "bench/device_memory.h"
#include "bench/rows.h"
#include "kernels/codes/pack_sums.h"
#include "kernels/codes/ternary_pack.h"

namespace terngrad::bench {
namespace {

constexpr int kWorkers = 8;

/// Whole numbers from -most to most, each equally often.
template <class T>
std::vector<T> make_numbers(std::int64_t n, int most) {
  std::vector<T> numbers(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<T>(static_cast<int>(i * 7919 % static_cast<std::size_t>(2 * most + 1)) - most);
  }
  return numbers;
}

/// @param num_workers  of lanes
Subject unpack(std::int64_t n, CodeFormat format, int num_workers) {
  const auto codes = std::make_shared<const std::vector<std::int8_t>>(make_numbers<std::int8_t>(n, 1));
  const auto packed = std::make_shared<Buffer<std::uint8_t>>(payload_bytes(format, n, num_workers));
  const std::int64_t bytes = pack_codes(*codes, format, num_workers, packed->span());
  const auto prepare = [=](Stream& stream) {
    struct Set {
      Input<std::uint8_t> payload;
      Buffer<std::int16_t> out;
    };
    const auto set = std::make_shared<Set>(
        Set{{packed->span().first(static_cast<std::size_t>(bytes)), stream}, Buffer<std::int16_t>(n, stream.device())});
    const auto check = [=, &stream] {
      const int bias = format == CodeFormat::kLanes ? 1 - num_workers : 0;
      return std::ranges::equal(on_host(set->out.span(), stream), *codes, {}, {},
                                [=](std::int8_t code) { return code + bias; });
    };
    const auto run = [=, &stream] {
      unpack_codes({format, set->payload.span(), n, num_workers}, 0, set->out.span(), stream);
    };
    return Work{run, check};
  };
  const auto elements = static_cast<double>(n);
  return {.bytes = static_cast<double>(bytes) + 2 * elements, .elements = elements, .prepare = prepare};
}

Subject pack_lanes(std::int64_t n) {
  const auto sums = std::make_shared<const std::vector<float>>(make_numbers<float>(n, kWorkers));
  const std::int64_t bytes = payload_bytes(CodeFormat::kLanes, n, kWorkers);
  const auto prepare = [=](Stream& stream) {
    struct Set {
      Input<float> sums;
      Buffer<std::uint64_t> payload;
      SumPacker packer;
    };
    const auto set = std::make_shared<Set>(
        Set{{*sums, stream}, Buffer<std::uint64_t>(bytes / 8, stream.device()), SumPacker(kWorkers, stream.device())});
    const SumPackTask task{
        .sums = set->sums.data(), .count = n, .payload = reinterpret_cast<std::uint8_t*>(set->payload.data())};
    const auto check = [=, &stream] {
      std::vector<std::uint64_t> expected(static_cast<std::size_t>(bytes / 8));
      pack_sums(*sums, kWorkers, reinterpret_cast<std::uint8_t*>(expected.data()));
      return on_host(set->payload.span(), stream) == expected;
    };
    return Work{.run = [=, &stream] { set->packer.run({&task, 1}, stream); }, .check = check};
  };
  const auto elements = static_cast<double>(n);
  return {.bytes = 4 * elements + static_cast<double>(bytes), .elements = elements, .prepare = prepare};
}

Subject add_lane_words(std::int64_t n) {
  const std::int64_t words = payload_bytes(CodeFormat::kLanes, n, kWorkers) / 8;
  const auto prepare = [=](Stream& stream) {
    struct Set {
      Buffer<std::uint64_t> lanes, other;
    };
    std::vector<std::uint64_t> values(static_cast<std::size_t>(words));
    std::iota(values.begin(), values.end(), std::uint64_t{0});
    const auto set =
        std::make_shared<Set>(Set{zeros_on<std::uint64_t>(words, stream), on_device(std::span(values), stream)});
    const auto check = [=, &stream] {
      const std::vector<std::uint64_t> found = on_host(set->lanes.span(), stream);
      for (std::size_t i = 0; i < found.size(); ++i) {
        if (found[i] != i) return false;
      }
      return true;
    };
    return Work{.run = [=, &stream] { add_lanes(set->lanes.span(), set->other.span(), stream); }, .check = check};
  };
  return {.bytes = 24.0 * static_cast<double>(words),
          .elements = static_cast<double>(n),
          .set_bytes = 16.0 * static_cast<double>(words),
          .prepare = prepare};
}

const Registration registration(__FILE__, [](Rows& rows) {
  // Aggregation unpacks a tile at a time: the CPU has no larger ones.
  const auto add = [&](const std::string& name, const std::string& type, Devices devices,
                       const std::function<Subject(std::int64_t n)>& make) {
    rows.add(name, type, make, {.devices = devices, .max_cpu_elements = 1 << 23, .one_thread = true});
  };
  const auto add_format = [&](CodeFormat format, int num_workers, Devices devices) {
    add("unpack_" + to_string(format), "i16", devices, [=](std::int64_t n) { return unpack(n, format, num_workers); });
  };
  for (const CodeFormat format : {CodeFormat::kT2, CodeFormat::kT5, CodeFormat::kTMask}) {
    add_format(format, 1, Devices::kBoth);
  }
  add_format(CodeFormat::kTrans, 1, Devices::kCpu);
  add_format(CodeFormat::kLanes, kWorkers, Devices::kCpu);
  add_format(CodeFormat::kLanes, 1, Devices::kCuda);
  add("pack_sums", "f32", Devices::kCuda, pack_lanes);
  add("add_lanes", "u64", Devices::kBoth, add_lane_words);
});

}  // namespace
}  // namespace terngrad::bench
