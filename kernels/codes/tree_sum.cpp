#include "kernels/codes/tree_sum.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "kernels/codes/code_sum.h"
#include "kernels/codes/codebook_codes.h"
#include "kernels/codes/cpu/code_bytes.h"
#include "kernels/codes/cuda/tree_sum.h"
#include "kernels/codes/exponents.h"
#include "kernels/codes/fp8.h"
#include "kernels/codes/levels.h"
#include "kernels/codes/signs.h"
#include "kernels/codes/ternarize.h"
#include "kernels/codes/ternary.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/codes/trans_payload.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/slice.h"

namespace terngrad {
namespace {

bool is_codes(LeafFormat format) { return format != LeafFormat::kFloat32 && format != LeafFormat::kBfloat16; }

bool is_levels(LeafFormat format) { return format == LeafFormat::kQ4 || format == LeafFormat::kQ8; }

bool is_exponents(LeafFormat format) { return format == LeafFormat::kN8 || format == LeafFormat::kN4; }

bool is_signs(LeafFormat format) { return format == LeafFormat::kBits || format == LeafFormat::kSides; }

bool is_codebook_leaf(LeafFormat format) {
  return format == LeafFormat::kE2 || format == LeafFormat::kE3 || format == LeafFormat::kE4;
}

/// Code format of leaves with codes.
CodeFormat code_format(LeafFormat format) {
  switch (format) {
    case LeafFormat::kT2:
      return CodeFormat::kT2;
    case LeafFormat::kT5:
      return CodeFormat::kT5;
    case LeafFormat::kTMask:
      return CodeFormat::kTMask;
    case LeafFormat::kTrans:
      return CodeFormat::kTrans;
    case LeafFormat::kQ4:
      return CodeFormat::kQ4;
    case LeafFormat::kQ8:
      return CodeFormat::kQ8;
    case LeafFormat::kE4M3:
      return CodeFormat::kE4M3;
    case LeafFormat::kN8:
      return CodeFormat::kN8;
    case LeafFormat::kN4:
      return CodeFormat::kN4;
    case LeafFormat::kBits:
    case LeafFormat::kSides:
      return CodeFormat::kBits;
    case LeafFormat::kE2:
      return CodeFormat::kE2;
    case LeafFormat::kE3:
      return CodeFormat::kE3;
    case LeafFormat::kE4:
      return CodeFormat::kE4;
    case LeafFormat::kFloat32:
    case LeafFormat::kBfloat16:
      break;
  }
  TERNGRAD_THROW(InvalidArgument, "[tree sum] leaf format ", static_cast<int>(format), " holds no codes");
}

/// Required alignment of a payload in bytes.
std::uintptr_t alignment(LeafFormat format) { return format == LeafFormat::kBfloat16 ? 2 : 4; }

/// Minimum length in bytes of every payload of the task.
std::int64_t min_bytes(const MeanTask& task) {
  if (!is_codes(task.format)) return task.count * (task.format == LeafFormat::kFloat32 ? 4 : 2);
  return min_payload_bytes(code_format(task.format), task.count);
}

/// @throws InvalidArgument
void check(const MeanTask& task) {
  TERNGRAD_REQUIRE(!task.workers.empty(), "[tree sum] needs at least one worker");
  TERNGRAD_REQUIRE(task.first % kChunkElements == 0, "[tree sum] first must be a multiple of ", kChunkElements,
                   ", got ", task.first);
  TERNGRAD_REQUIRE(task.block_elements % kMinBlockElements == 0, "[tree sum] block_elements must be a multiple of ",
                   kMinBlockElements, ", got ", task.block_elements);
  TERNGRAD_REQUIRE(!task.two_scalers || (is_codes(task.format) && is_ternary(code_format(task.format))),
                   "[tree sum] leaves in format ", to_string(task.format), " have one scaler, not two");
  TERNGRAD_REQUIRE(task.columns >= 0 && (task.columns == 0 || task.format == LeafFormat::kSides),
                   "[tree sum] leaves in format ", to_string(task.format), " have no scalers of columns");
  const std::int64_t min = min_bytes(task);
  for (const MeanLeaf& leaf : task.workers) {
    TERNGRAD_REQUIRE(leaf.num_workers == 1 || !is_codes(task.format), "[tree sum] codes in format ",
                     to_string(task.format), " are of one worker, not sums over ", leaf.num_workers);
    TERNGRAD_REQUIRE(static_cast<std::int64_t>(leaf.payload.size()) >= min, "[tree sum] a payload of ",
                     leaf.payload.size(), " bytes does not hold ", task.count, " elements in format ",
                     to_string(task.format), ", which need ", min);
    TERNGRAD_REQUIRE(reinterpret_cast<std::uintptr_t>(leaf.payload.data()) % alignment(task.format) == 0,
                     "[tree sum] a payload in format ", to_string(task.format), " must begin at a multiple of ",
                     alignment(task.format), " bytes");
    TERNGRAD_REQUIRE(leaf.scalers != nullptr || task.count == 0 || !is_codes(task.format),
                     "[tree sum] codes in format ", to_string(task.format), " need scalers");
  }
}

/// Calls body(scaler, begin, end) for each run of [0, count) that shares one scaler; positions are relative to `first`.
template <class Body>
void for_each_run(const MeanTask& task, std::int64_t first, std::size_t count, const Body& body) {
  const std::int64_t block = task.block_elements;
  if (block == 0) return body(std::int64_t{0}, std::size_t{0}, count);
  for (std::size_t begin = 0; begin < count;) {
    const std::int64_t position = task.first + first + static_cast<std::int64_t>(begin);
    const std::size_t end = std::min(count, begin + static_cast<std::size_t>(block - position % block));
    body(position / block - task.first / block, begin, end);
    begin = end;
  }
}

constexpr std::int64_t kT2CodesPerWord = 16;

/// Reads at most a chunk of t2 codes with the same scaler for both signs, starting at a word boundary.
/// @param words  from element `first` on
void read_t2(const MeanTask& task, const MeanLeaf& leaf, const std::uint32_t* words, std::int64_t first,
             std::span<float> out) {
  for_each_run(task, first, out.size(), [&](std::int64_t scaler, std::size_t begin, std::size_t end) {
    // Runs begin at multiples of 64 elements, words of 16.
    const std::uint32_t* const of_run = words + static_cast<std::int64_t>(begin) / kT2CodesPerWord;
    cpu::sum_t2_tile({&of_run, 1}, static_cast<std::int64_t>(end - begin), leaf.scalers[scaler], out.data() + begin,
                     cpu::Stores::kCached);
  });
}

/// Reads at most a chunk of ternary codes.
void read_ternary(const MeanTask& task, const MeanLeaf& leaf, std::int64_t first, std::span<float> out) {
  if (task.format == LeafFormat::kT2 && !task.two_scalers && first % kT2CodesPerWord == 0) {
    const auto* const words = reinterpret_cast<const std::uint32_t*>(leaf.payload.data());
    return read_t2(task, leaf, words + first / kT2CodesPerWord, first, out);
  }
  if (task.format == LeafFormat::kTrans && !task.two_scalers && first % kChunkElements == 0) {
    std::array<std::uint32_t, kChunkElements / kT2CodesPerWord> words;
    cpu::trans_to_t2(leaf.payload, task.count, first / kChunkElements, words.data());
    return read_t2(task, leaf, words.data(), first, out);
  }
  std::array<std::int16_t, kChunkElements> codes;
  unpack_codes({code_format(task.format), leaf.payload, task.count, 1}, first, {codes.data(), out.size()});
  for_each_run(task, first, out.size(), [&](std::int64_t scaler, std::size_t begin, std::size_t end) {
    const float positive = leaf.scalers[task.two_scalers ? 2 * scaler : scaler];
    if (!task.two_scalers) {
      return cpu::scale_sums(codes.data() + begin, static_cast<std::int64_t>(end - begin), positive,
                             out.data() + begin);
    }
    const float negative = leaf.scalers[2 * scaler + 1];
    for (std::size_t i = begin; i < end; ++i) {
      out[i] = (codes[i] < 0 ? negative : positive) * static_cast<float>(codes[i]);
    }
  });
}

/// Buffer for the codes of at most a chunk, one byte each.
using CodeBytes = std::array<std::uint8_t, kChunkElements + 2 * cpu::kPackedCodes>;

/// Unpacks `count` 4-bit codes from `first` on, to one byte each.
const std::uint8_t* unpacked_nibbles(const MeanLeaf& leaf, std::int64_t first, std::size_t count, CodeBytes& room) {
  const std::int64_t skipped = first % 2;
  cpu::unpack_nibbles(leaf.payload.data() + first / 2, (skipped + static_cast<std::int64_t>(count) + 1) / 2,
                      room.data());
  return room.data() + skipped;
}

/// Reads at most a chunk of q4 or q8 codes.
void read_levels(const MeanTask& task, const MeanLeaf& leaf, std::int64_t first, std::span<float> out) {
  CodeBytes room;
  const std::uint8_t* codes =
      task.format == LeafFormat::kQ4 ? unpacked_nibbles(leaf, first, out.size(), room) : leaf.payload.data() + first;
  const int levels = levels_of(code_format(task.format));
  for_each_run(task, first, out.size(), [&](std::int64_t scaler, std::size_t begin, std::size_t end) {
    const float unit = leaf.scalers[scaler] / static_cast<float>(levels);
    cpu::scale_codes(codes + begin, static_cast<std::int64_t>(end - begin), levels, unit, out.data() + begin);
  });
}

/// Reads at most a chunk of powers of two.
void read_exponents(const MeanTask& task, const MeanLeaf& leaf, std::int64_t first, std::span<float> out) {
  CodeBytes room;
  const bool is_narrow = task.format == LeafFormat::kN4;
  const std::uint8_t* codes = is_narrow ? unpacked_nibbles(leaf, first, out.size(), room) : leaf.payload.data() + first;
  for_each_run(task, first, out.size(), [&](std::int64_t scaler, std::size_t begin, std::size_t end) {
    cpu::scale_exponents(codes + begin, static_cast<std::int64_t>(end - begin), is_narrow ? 4 : 8, leaf.scalers[scaler],
                         out.data() + begin);
  });
}

/// Reads at most a chunk of codes of a codebook.
void read_codebook(const MeanTask& task, const MeanLeaf& leaf, std::int64_t first, std::span<float> out) {
  const int bits = codebook_bits(code_format(task.format));
  const Codebook book = codebook(1 << bits);
  CodeBytes room;
  const std::uint8_t* codes = room.data();
  if (task.format == LeafFormat::kE4) {
    codes = unpacked_nibbles(leaf, first, out.size(), room);
  } else {
    const std::int64_t skipped = first % cpu::kPackedCodes;
    cpu::unpack_bits(leaf.payload.data() + first / cpu::kPackedCodes * bits,
                     skipped + static_cast<std::int64_t>(out.size()), bits, room.data());
    codes += skipped;
  }
  for_each_run(task, first, out.size(), [&](std::int64_t scaler, std::size_t begin, std::size_t end) {
    cpu::scale_codebook(codes + begin, static_cast<std::int64_t>(end - begin), book, leaf.scalers[scaler],
                        out.data() + begin);
  });
}

/// Reads at most a chunk of FP8 numbers.
void read_e4m3(const MeanTask& task, const MeanLeaf& leaf, std::int64_t first, std::span<float> out) {
  const std::uint8_t* codes = leaf.payload.data() + first;
  for_each_run(task, first, out.size(), [&](std::int64_t scaler, std::size_t begin, std::size_t end) {
    cpu::scale_e4m3(codes + begin, static_cast<std::int64_t>(end - begin), leaf.scalers[scaler], out.data() + begin);
  });
}

/// Reads at most a chunk of signs with scalers per column.
void read_columns(const MeanTask& task, const MeanLeaf& leaf, std::int64_t first, std::span<float> out) {
  std::int64_t column = (task.first + first) % task.columns;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto bit = static_cast<std::size_t>(first) + i;
    const bool is_negative = (leaf.payload[bit / 8] >> (bit % 8) & 1) != 0;
    out[i] = is_negative ? -leaf.scalers[2 * column] : leaf.scalers[2 * column + 1];
    if (++column == task.columns) column = 0;
  }
}

/// Reads at most a chunk of signs.
void read_signs(const MeanTask& task, const MeanLeaf& leaf, std::int64_t first, std::span<float> out) {
  if (task.columns > 0) return read_columns(task, leaf, first, out);
  const auto num_bytes = static_cast<std::int64_t>(leaf.payload.size());
  for_each_run(task, first, out.size(), [&](std::int64_t scaler, std::size_t begin, std::size_t end) {
    const bool has_sides = task.format == LeafFormat::kSides;
    const float negative = leaf.scalers[has_sides ? 2 * scaler : scaler];
    const float positive = has_sides ? leaf.scalers[2 * scaler + 1] : negative;
    cpu::scale_signs(leaf.payload.data(), num_bytes, first + static_cast<std::int64_t>(begin),
                     static_cast<std::int64_t>(end - begin), positive, negative, out.data() + begin);
  });
}

bool is_one_worker(const MeanLeaf& leaf) { return leaf.num_workers == 1; }

void sum_on_cpu(const MeanTask& task, Stream& stream) {
  const auto leaf = [&](int number, std::int64_t first, std::span<float> out) {
    decode_leaf(task, task.workers[static_cast<std::size_t>(number)], first, out);
  };
  if (std::ranges::all_of(task.workers, is_one_worker)) {
    const auto num_workers = static_cast<int>(task.workers.size());
    return aggregate_tree(num_workers, task.count, leaf, task.scale, task.out, stream);
  }
  std::vector<int> num_workers;
  num_workers.reserve(task.workers.size());
  for (const MeanLeaf& sum : task.workers) num_workers.push_back(sum.num_workers);
  aggregate_tree(num_workers, task.count, leaf, task.scale, task.out, stream);
}

}  // namespace

std::string to_string(LeafFormat format) {
  if (format == LeafFormat::kFloat32) return "fp32";
  if (format == LeafFormat::kBfloat16) return "bf16";
  if (format == LeafFormat::kSides) return "sides";
  return to_string(code_format(format));
}

LeafFormat leaf_format(CodeFormat format) {
  switch (format) {
    case CodeFormat::kT2:
      return LeafFormat::kT2;
    case CodeFormat::kT5:
      return LeafFormat::kT5;
    case CodeFormat::kTMask:
      return LeafFormat::kTMask;
    case CodeFormat::kTrans:
      return LeafFormat::kTrans;
    case CodeFormat::kQ4:
      return LeafFormat::kQ4;
    case CodeFormat::kQ8:
      return LeafFormat::kQ8;
    case CodeFormat::kE4M3:
      return LeafFormat::kE4M3;
    case CodeFormat::kN8:
      return LeafFormat::kN8;
    case CodeFormat::kN4:
      return LeafFormat::kN4;
    case CodeFormat::kBits:
      return LeafFormat::kBits;
    case CodeFormat::kE2:
      return LeafFormat::kE2;
    case CodeFormat::kE3:
      return LeafFormat::kE3;
    case CodeFormat::kE4:
      return LeafFormat::kE4;
    case CodeFormat::kLanes:
      break;
  }
  TERNGRAD_THROW(InvalidArgument, "[tree sum] lanes are sums over workers, not the codes of one");
}

void decode_leaf(const MeanTask& task, const MeanLeaf& leaf, std::int64_t first, std::span<float> out) {
  if (out.empty()) return;
  if (task.format == LeafFormat::kFloat32) {
    std::memcpy(out.data(), leaf.payload.data() + 4 * first, out.size_bytes());
    return;
  }
  if (task.format == LeafFormat::kBfloat16) {
    const auto* values = reinterpret_cast<const std::uint16_t*>(leaf.payload.data()) + first;
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = from_bfloat16(values[i]);
    return;
  }
  const auto read = is_levels(task.format)             ? read_levels
                    : task.format == LeafFormat::kE4M3 ? read_e4m3
                    : is_signs(task.format)            ? read_signs
                    : is_exponents(task.format)        ? read_exponents
                    : is_codebook_leaf(task.format)    ? read_codebook
                                                       : read_ternary;
  constexpr auto kChunk = static_cast<std::size_t>(kChunkElements);
  for (std::size_t done = 0; done < out.size(); done += kChunk) {
    read(task, leaf, first + static_cast<std::int64_t>(done), out.subspan(done, std::min(kChunk, out.size() - done)));
  }
}

TreeSummer::TreeSummer(Device device) : device_(device) {
  if (device.is_cuda()) cuda_ = cuda::make_tree_sum_runner(device);
}

void TreeSummer::run(std::span<const MeanTask> tasks, Stream& stream) {
  TERNGRAD_REQUIRE(stream.device() == device_, "[tree sum] the summer is for ", device_.name(), ", the stream for ",
                   stream.device().name());
  for (const MeanTask& task : tasks) {
    check(task);
    TERNGRAD_REQUIRE(device_.is_cpu() || std::ranges::all_of(task.workers, is_one_worker),
                     "[tree sum] sums over subtrees are added on the CPU only");
    if (device_.is_cuda() && task.format == LeafFormat::kTrans) {
      TERNGRAD_THROW(NotSupported, "[tree sum] format ", to_string(task.format), " has no kernels for GPUs");
    }
  }
  if (cuda_ != nullptr) return cuda_->run(tasks, stream);
  for (const MeanTask& task : tasks) sum_on_cpu(task, stream);
}

}  // namespace terngrad
