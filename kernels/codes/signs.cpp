#include "kernels/codes/signs.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/codes/cpu/block_runs.h"
#include "kernels/codes/cpu/quantize_task.h"
#include "kernels/codes/cuda/signs.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/slice.h"

namespace terngrad {
namespace {

constexpr std::int64_t kWordBits = 64;

/// Bit pattern for 64 zeros, the first at an even position of the segment.
std::uint64_t bits_of_zeros(ZeroSign zeros, const DrawKey& key) {
  if (zeros != ZeroSign::kAlternate) return 0;
  const std::uint64_t parity = (key.step + key.worker) % 2;
  return parity == 0 ? 0xaaaaaaaaaaaaaaaau : 0x5555555555555555u;
}

/// Mask of the low `count` bits.
std::uint64_t low_bits(std::int64_t count) { return count >= kWordBits ? ~std::uint64_t{0} : (1ull << count) - 1; }

/// Sign words of a chunk. kChunkElements is a multiple of the word size, so blocks of 64 elements have their own words.
using ChunkWords = std::array<std::uint64_t, kChunkElements / kWordBits>;

/// True if elements with this scaler or pair are used.
bool counts(const float* scalers, std::int64_t index, bool two_scalers) {
  return two_scalers ? scalers[2 * index] > 0 || scalers[2 * index + 1] > 0 : scalers[index] > 0;
}

/// Clears the bits of unused columns. @param position  offset of the chunk's first element in the segment
void clear_columns(const QuantizeTask& task, std::int64_t columns, std::int64_t position, std::int64_t count,
                   ChunkWords& words) {
  for (std::int64_t i = 0; i < std::min(columns, count); ++i) {
    if (counts(task.scalers, (position + i) % columns, true)) continue;
    for (std::int64_t at = i; at < count; at += columns) {
      words[static_cast<std::size_t>(at / kWordBits)] &= ~(std::uint64_t{1} << (at % kWordBits));
    }
  }
}

void sign_chunk(const QuantizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
                const SignOptions& options, const DrawKey& key, ChunkWords& words) {
  const std::uint64_t zeros = bits_of_zeros(options.zeros, key);
  if (options.zeros == ZeroSign::kOwn) {
    cpu::sign_bit_words(gradient, count, words.data());
  } else {
    cpu::sign_words(gradient, count, zeros, words.data());
  }
  if (options.columns > 0) return clear_columns(task, options.columns, task.first + begin, count, words);
  cpu::for_each_block_run(task, begin, count, [&](std::int64_t block, std::int64_t done, std::int64_t run_count) {
    if (counts(task.scalers, block, options.two_scalers)) return;
    for (std::int64_t i = done; i < done + run_count; i += kWordBits) {
      words[static_cast<std::size_t>(i / kWordBits)] = options.votes ? zeros & low_bits(count - i) : 0;
    }
  });
}

/// Expands bits to one byte each.
void bits_to_bytes(const ChunkWords& words, std::int64_t count, std::uint8_t* bytes) {
  for (std::int64_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::uint8_t>(words[static_cast<std::size_t>(i / kWordBits)] >> (i % kWordBits) & 1);
  }
}

}  // namespace

SignPacker::SignPacker(Device device) : device_(device) {
  if (device.is_cuda()) cuda_ = cuda::make_sign_runner(device);
}

void SignPacker::run(std::span<const QuantizeTask> tasks, const SignOptions& options, const DrawKey& key,
                     Stream& stream, const std::uint64_t* device_step) {
  TERNGRAD_REQUIRE(stream.device() == device_, "[signs] made for ", device_.name(), ", the stream is for ",
                   stream.device().name());
  TERNGRAD_REQUIRE(device_step == nullptr || device_.is_cuda(), "[signs] device_step is for a GPU's stream");
  const ElementType type = check_quantize_tasks(tasks, options.lanes ? 8 : 4, "signs");
  TERNGRAD_REQUIRE(!options.two_scalers || !options.lanes, "[signs] lanes count signs of one scaler, not of two");
  TERNGRAD_REQUIRE(options.columns >= 0 && (options.columns == 0 || options.two_scalers),
                   "[signs] columns have two scalers each; there are ", options.columns, " of ",
                   options.two_scalers ? "two" : "one");
  const int bits = options.lanes ? lane_bits(options.num_workers, 1) : 0;
  if (device_.is_cuda()) return cuda_->run(tasks, type, options, key, device_step, stream);
  const cpu::CodeStore store{.format = options.lanes ? CodeFormat::kLanes : CodeFormat::kBits, .lane_bits = bits};
  cpu::quantize_tasks(tasks, store, Rounding::kNearest, key, stream,
                      [&](const QuantizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
                          const DrawKey& task_key, std::span<const std::byte>, cpu::ChunkDraws&, std::uint8_t* codes) {
                        ChunkWords words;
                        sign_chunk(task, gradient, begin, count, options, task_key, words);
                        if (options.lanes) {
                          bits_to_bytes(words, count, codes);
                        } else {
                          std::memcpy(codes, words.data(), static_cast<std::size_t>((count + 31) / 32 * 4));
                        }
                      });
}

void check_bits(const PackedCodes& codes) {
  const std::int64_t expected = payload_bytes(CodeFormat::kBits, codes.num_codes, 1);
  if (static_cast<std::int64_t>(codes.payload.size()) != expected) {
    TERNGRAD_THROW(CommunicationError, "[bits] payload of ", codes.num_codes, " codes has ", codes.payload.size(),
                   " bytes, expected ", expected);
  }
  if (codes.num_codes % 32 == 0) return;
  std::uint32_t last;
  std::memcpy(&last, codes.payload.data() + codes.payload.size() - sizeof(last), sizeof(last));
  if (last >> (codes.num_codes % 32) != 0) {
    TERNGRAD_THROW(CommunicationError, "[bits] padding after the last bit is not zero");
  }
}

}  // namespace terngrad
