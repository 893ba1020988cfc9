#include "kernels/sparse/sparse_payload.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/runtime/errors.h"
#include "kernels/sparse/sparse_layout.h"
#include "kernels/sparse/top_k.h"
#include "kernels/tensor/bfloat16.h"

namespace terngrad {
namespace {

constexpr std::int64_t kMaxWidths = std::int64_t{1} << (32 - kRunsWidthBits);  // exclusive bound of the sum of widths

std::uint32_t word_at(const std::uint8_t* payload, std::int64_t word) {
  std::uint32_t value = 0;
  std::memcpy(&value, payload + 4 * word, sizeof(value));
  return value;
}

void put_word(std::uint8_t* payload, std::int64_t word, std::uint32_t value) {
  std::memcpy(payload + 4 * word, &value, sizeof(value));
}

/// Number of significant bits of a number; 0 for 0.
int bits_of(std::uint64_t number) { return 64 - std::countl_zero(number); }
std::int64_t value_bytes(SparseValues values) { return values == SparseValues::kFloat32 ? 4 : 2; }
std::int64_t words_of_values(const SparseShape& shape, std::int64_t count) {
  return words_of_bits(8 * value_bytes(shape.values) * count);
}

/// Packs numbers of up to 32 bits, low bits first, into words from a given word on.
class BitWriter {
 public:
  BitWriter(std::uint8_t* payload, std::int64_t word) : payload_(payload), word_(word) {}
  void add(std::uint32_t value, int width) {
    pending_ |= std::uint64_t{value} << num_pending_;
    num_pending_ += width;
    if (num_pending_ < 32) return;
    put_word(payload_, word_++, static_cast<std::uint32_t>(pending_));
    pending_ >>= 32;
    num_pending_ -= 32;
  }
  /// Pads the last word with zeros. @returns the next word
  std::int64_t finish() {
    if (num_pending_ > 0) put_word(payload_, word_++, static_cast<std::uint32_t>(pending_));
    pending_ = 0;
    num_pending_ = 0;
    return word_;
  }

 private:
  std::uint8_t* payload_;
  std::int64_t word_;
  std::uint64_t pending_ = 0;
  int num_pending_ = 0;
};

/// Number `index` in a packed sequence of `width`-bit numbers that begins at a word. Reads only words that contain it.
std::uint32_t bits_at(const std::uint8_t* payload, std::int64_t word, std::int64_t index, int width) {
  if (width == 0) return 0;
  const std::int64_t bit = index * width;
  const auto shift = static_cast<int>(bit % 32);
  std::uint64_t bits = word_at(payload, word + bit / 32);
  if (shift + width > 32) bits |= std::uint64_t{word_at(payload, word + bit / 32 + 1)} << 32;
  return static_cast<std::uint32_t>(bits >> shift & ((std::uint64_t{1} << width) - 1));
}

float value_at(const SparseShape& shape, const std::uint8_t* payload, std::int64_t first_word, std::int64_t index) {
  if (shape.values == SparseValues::kFloat32) return std::bit_cast<float>(word_at(payload, first_word + index));
  std::uint16_t half = 0;
  std::memcpy(&half, payload + 4 * first_word + 2 * index, sizeof(half));
  return from_bfloat16(half);
}

/// @returns the word after the values
std::int64_t write_values(const SparseShape& shape, std::span<const float> values, std::int64_t word,
                          std::uint8_t* payload) {
  if (shape.values == SparseValues::kFloat32) {
    if (!values.empty()) std::memcpy(payload + 4 * word, values.data(), values.size_bytes());
  } else {
    const std::int64_t end = word + words_of_values(shape, static_cast<std::int64_t>(values.size()));
    if (end > word) put_word(payload, end - 1, 0);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint16_t half = to_bfloat16(values[i]);
      std::memcpy(payload + 4 * word + 2 * i, &half, sizeof(half));
    }
  }
  return word + words_of_values(shape, static_cast<std::int64_t>(values.size()));
}

[[noreturn]] void refuse(const SparseShape& shape, const char* problem) {
  TERNGRAD_THROW(CommunicationError, "[", shape.format == SparseFormat::kRuns ? "runs" : "local", "] payload of ",
                 num_kept(shape), " of ", shape.num_elements, " elements: ", problem);
}

void check_values(const SparseShape& shape, std::span<const std::uint8_t> payload, std::int64_t first_word) {
  const std::int64_t count = num_kept(shape);
  if (static_cast<std::int64_t>(payload.size()) != 4 * (first_word + words_of_values(shape, count))) {
    refuse(shape, "its length is another than its places say");
  }
  if (shape.values == SparseValues::kBfloat16 && count % 2 != 0 &&
      word_at(payload.data(), first_word + count / 2) >> 16 != 0) {
    refuse(shape, "padding after the last value is not zero");
  }
}

// Format runs.

struct Group {
  std::int64_t count = 0;  // places
  std::uint32_t first_place = 0;
  int width = 0;          // bits per gap
  std::int64_t word = 0;  // first word of its gaps
};

/// A group in a payload of `count` places. Earlier groups are full, so the sum of their widths determines its first
/// word.
Group group_at(const std::uint8_t* payload, std::int64_t count, std::int64_t index) {
  const std::int64_t word = kRunsHeaderWords + 2 * index;
  const std::uint32_t widths = word_at(payload, word + 1);
  return {.count = places_of_group(count, index),
          .first_place = word_at(payload, word),
          .width = static_cast<int>(widths & ((1u << kRunsWidthBits) - 1)),
          .word = first_gap_word(count, widths >> kRunsWidthBits)};
}

std::int64_t end_of(const Group& group) { return group.word + words_of_bits(group.count * group.width); }

std::int64_t first_value_word(const std::uint8_t* payload, std::int64_t count) {
  return count == 0 ? kRunsHeaderWords : end_of(group_at(payload, count, num_sparse_groups(count) - 1));
}

std::int64_t max_widths(const SparseShape& shape, std::int64_t count) {
  // Upper bound: a gap g needs at most log2(g) + 1 bits. The logarithm is concave, so the total is largest if all
  // groups span equally many elements.
  const auto groups = static_cast<double>(num_sparse_groups(count));
  return static_cast<std::int64_t>(
      std::ceil(groups * (std::log2(static_cast<double>(shape.num_elements) / groups) + 1)));
}

std::int64_t write_runs(const SparseShape& shape, std::span<const std::uint32_t> places, std::span<const float> values,
                        std::uint8_t* payload) {
  const auto count = static_cast<std::int64_t>(places.size());
  put_word(payload, 0, static_cast<std::uint32_t>(count));
  put_word(payload, 1, 0);
  std::int64_t word = kRunsHeaderWords + 2 * num_sparse_groups(count);
  std::uint32_t widths = 0;
  for (std::int64_t group = 0; group < num_sparse_groups(count); ++group) {
    const auto of_group = places.subspan(static_cast<std::size_t>(group * kSparseGroup),
                                         static_cast<std::size_t>(places_of_group(count, group)));
    std::uint32_t all_gaps = 0;
    for (std::size_t i = 1; i < of_group.size(); ++i) all_gaps |= of_group[i] - of_group[i - 1] - 1;
    const int width = bits_of(all_gaps);
    put_word(payload, kRunsHeaderWords + 2 * group, of_group[0]);
    put_word(payload, kRunsHeaderWords + 2 * group + 1, widths << kRunsWidthBits | static_cast<std::uint32_t>(width));
    widths += static_cast<std::uint32_t>(width);
    BitWriter writer(payload, word);
    writer.add(0, width);
    for (std::size_t i = 1; i < of_group.size(); ++i) writer.add(of_group[i] - of_group[i - 1] - 1, width);
    word = writer.finish();
  }
  return 4 * write_values(shape, values, word, payload);
}

/// Checks a group. @returns the place after its last one
std::int64_t check_group(const SparseShape& shape, const std::uint8_t* payload, const Group& group,
                         std::int64_t first_allowed) {
  if (group.first_place < first_allowed) refuse(shape, "its places do not ascend");
  std::int64_t place = group.first_place;
  std::uint32_t all_gaps = 0;
  for (std::int64_t i = 0; i < group.count; ++i) {
    const std::uint32_t gap = bits_at(payload, group.word, i, group.width);
    if (i == 0) {
      if (gap != 0) refuse(shape, "a group's first gap is not zero");
      continue;
    }
    all_gaps |= gap;
    place += std::int64_t{gap} + 1;
  }
  if (bits_of(all_gaps) != group.width) refuse(shape, "a group's gaps are wider than they need to be");
  if (place >= shape.num_elements) refuse(shape, "its places are beyond the slice");
  const std::int64_t used_bits = group.count * group.width % 32;
  if (used_bits != 0 && word_at(payload, end_of(group) - 1) >> used_bits != 0) {
    refuse(shape, "padding after the last gap is not zero");
  }
  return place + 1;
}

void check_runs(const SparseShape& shape, std::span<const std::uint8_t> payload) {
  const std::int64_t count = num_kept(shape);
  const auto words = static_cast<std::int64_t>(payload.size() / 4);
  if (payload.size() % 4 != 0 || words < kRunsHeaderWords + 2 * num_sparse_groups(count))
    refuse(shape, "it is too short");
  if (word_at(payload.data(), 0) != count || word_at(payload.data(), 1) != 0) {
    refuse(shape, "it says another number of places");
  }
  std::int64_t next_place = 0;
  std::int64_t next_word = kRunsHeaderWords + 2 * num_sparse_groups(count);
  for (std::int64_t index = 0; index < num_sparse_groups(count); ++index) {
    const Group group = group_at(payload.data(), count, index);
    if (group.word != next_word || group.width > static_cast<int>(kMaxRunsWidth))
      refuse(shape, "its widths contradict each other");
    next_word = end_of(group);
    if (next_word > words) refuse(shape, "it is too short");
    next_place = check_group(shape, payload.data(), group, next_place);
  }
  check_values(shape, payload, next_word);
}

/// Calls take(place - first, value) for each place in [first, end).
template <class Take>
void for_each_of_runs(const SparseShape& shape, std::span<const std::uint8_t> payload, std::int64_t first,
                      std::int64_t end, const Take& take) {
  const std::uint8_t* bytes = payload.data();
  const std::int64_t count = num_kept(shape);
  const std::int64_t values = first_value_word(bytes, count);
  // Binary search for the last group that begins at or before `first`.
  std::int64_t begin = 0;
  std::int64_t beyond = num_sparse_groups(count);
  while (beyond - begin > 1) {
    const std::int64_t middle = (begin + beyond) / 2;
    (word_at(bytes, kRunsHeaderWords + 2 * middle) <= first ? begin : beyond) = middle;
  }
  for (std::int64_t index = begin; index < num_sparse_groups(count); ++index) {
    const Group group = group_at(bytes, count, index);
    std::int64_t place = group.first_place;
    for (std::int64_t i = 0; i < group.count && place < end; ++i) {
      if (i > 0) place += std::int64_t{bits_at(bytes, group.word, i, group.width)} + 1;
      if (place < first || place >= end) continue;
      take(static_cast<std::size_t>(place - first), value_at(shape, bytes, values, index * kSparseGroup + i));
    }
    if (place >= end) return;
  }
}

void add_runs(const SparseShape& shape, std::span<const std::uint8_t> payload, std::int64_t first,
              std::span<float> out) {
  for_each_of_runs(shape, payload, first, first + static_cast<std::int64_t>(out.size()),
                   [&](std::size_t place, float value) { out[place] += value; });
}

// Format local.

int place_bits(const SparseShape& shape) { return bits_of(static_cast<std::uint64_t>(shape.block_elements)) - 1; }
std::int64_t num_blocks(const SparseShape& shape) {
  return (shape.num_elements + shape.block_elements - 1) / shape.block_elements;
}
std::int64_t kept_of_block(const SparseShape& shape, std::int64_t block) {
  return top_k_count(std::min(shape.block_elements, shape.num_elements - block * shape.block_elements), shape.density);
}

std::int64_t write_local(const SparseShape& shape, std::span<const std::uint32_t> places, std::span<const float> values,
                         std::uint8_t* payload) {
  BitWriter writer(payload, 0);
  const auto mask = static_cast<std::uint32_t>(shape.block_elements - 1);
  for (const std::uint32_t place : places) writer.add(place & mask, place_bits(shape));
  return 4 * write_values(shape, values, writer.finish(), payload);
}

void check_local(const SparseShape& shape, std::span<const std::uint8_t> payload) {
  const std::int64_t count = num_kept(shape);
  const std::int64_t bits = count * place_bits(shape);
  check_values(shape, payload, words_of_bits(bits));
  std::int64_t entry = 0;
  for (std::int64_t block = 0; block < num_blocks(shape); ++block) {
    const std::int64_t left = shape.num_elements - block * shape.block_elements;
    std::int64_t next_place = 0;
    for (const std::int64_t end = entry + kept_of_block(shape, block); entry < end; ++entry) {
      const std::int64_t place = bits_at(payload.data(), 0, entry, place_bits(shape));
      if (place < next_place) refuse(shape, "its places do not ascend");
      if (place >= left) refuse(shape, "its places are beyond the slice");
      next_place = place + 1;
    }
  }
  if (bits % 32 != 0 && word_at(payload.data(), bits / 32) >> (bits % 32) != 0) {
    refuse(shape, "padding after the last place is not zero");
  }
}

void add_local(const SparseShape& shape, std::span<const std::uint8_t> payload, std::int64_t first,
               std::span<float> out) {
  const std::int64_t values = words_of_bits(num_kept(shape) * place_bits(shape));
  const std::int64_t end = first + static_cast<std::int64_t>(out.size());
  const std::int64_t of_full_block = top_k_count(shape.block_elements, shape.density);
  for (std::int64_t block = first / shape.block_elements; block * shape.block_elements < end; ++block) {
    const std::int64_t begin = block * shape.block_elements;
    for (std::int64_t i = 0; i < kept_of_block(shape, block); ++i) {
      const std::int64_t entry = block * of_full_block + i;
      const std::int64_t place = begin + bits_at(payload.data(), 0, entry, place_bits(shape));
      if (place < first || place >= end) continue;
      out[static_cast<std::size_t>(place - first)] += value_at(shape, payload.data(), values, entry);
    }
  }
}

}  // namespace

std::int64_t num_kept(const SparseShape& shape) {
  if (shape.num_places >= 0) return shape.num_places;
  if (shape.format == SparseFormat::kRuns) return top_k_count(shape.num_elements, shape.density);
  const std::int64_t full = shape.num_elements / shape.block_elements;
  return full * top_k_count(shape.block_elements, shape.density) +
         top_k_count(shape.num_elements % shape.block_elements, shape.density);
}

bool runs_fit(const SparseShape& shape) {
  const std::int64_t count = num_kept(shape);
  return shape.num_elements >> 32 == 0 && (count == 0 || max_widths(shape, count) < kMaxWidths);
}

std::int64_t max_sparse_bytes(const SparseShape& shape) {
  const std::int64_t count = num_kept(shape);
  const std::int64_t values = words_of_values(shape, count);
  if (shape.format == SparseFormat::kLocal) return 4 * (words_of_bits(count * place_bits(shape)) + values);
  if (count == 0) return 4 * kRunsHeaderWords;
  const std::int64_t widths = max_widths(shape, count);
  TERNGRAD_REQUIRE(runs_fit(shape), "[runs] a slice of ", shape.num_elements, " elements, of which ", count,
                   " are kept, is too large for this format: accepted are fewer than ",
                   "2^32 with a small density, or blocks");
  return 4 * (kRunsHeaderWords + 2 * num_sparse_groups(count) + widths * (kSparseGroup / 32) + values);
}

std::int64_t write_sparse(const SparseShape& shape, std::span<const std::uint32_t> places,
                          std::span<const float> values, std::uint8_t* payload) {
  const auto count = static_cast<std::size_t>(num_kept(shape));
  TERNGRAD_REQUIRE(places.size() == count && values.size() == count, "[sparse] a slice keeps ", count,
                   " elements, got ", places.size(), " places and ", values.size(), " values");
  return shape.format == SparseFormat::kRuns ? write_runs(shape, places, values, payload)
                                             : write_local(shape, places, values, payload);
}

void check_sparse(const SparseShape& shape, std::span<const std::uint8_t> payload) {
  shape.format == SparseFormat::kRuns ? check_runs(shape, payload) : check_local(shape, payload);
}

void add_sparse(const SparseShape& shape, std::span<const std::uint8_t> payload, std::int64_t first,
                std::span<float> out) {
  if (out.empty()) return;
  shape.format == SparseFormat::kRuns ? add_runs(shape, payload, first, out) : add_local(shape, payload, first, out);
}

void put_sparse(const SparseShape& shape, std::span<const std::uint8_t> payload, std::span<float> out) {
  TERNGRAD_REQUIRE(shape.format == SparseFormat::kRuns, "[sparse] only elements of runs are put in their places");
  for_each_of_runs(shape, payload, 0, shape.num_elements, [&](std::size_t place, float value) { out[place] = value; });
}

std::span<const float> sparse_values(const SparseShape& shape, std::span<const std::uint8_t> payload) {
  TERNGRAD_REQUIRE(shape.format == SparseFormat::kRuns && shape.values == SparseValues::kFloat32,
                   "[sparse] only values of runs in float32 lie as they are");
  const std::int64_t count = num_kept(shape);
  const auto* const words = reinterpret_cast<const float*>(payload.data());
  return {words + first_value_word(payload.data(), count), static_cast<std::size_t>(count)};
}

}  // namespace terngrad
