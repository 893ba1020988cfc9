// Leaves of several workers for tree sums, in all formats, with their values.
#pragma once

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

#include "kernels/codes/codebook_codes.h"
#include "kernels/codes/levels.h"
#include "kernels/codes/ternarize.h"
#include "kernels/codes/tree_sum.h"
#include "kernels/tensor/bfloat16.h"
#include "support/gradients.h"
#include "support/packed_workers.h"
#include "support/reference.h"

namespace terngrad::testing {

inline constexpr LeafFormat kLeafFormats[] = {
    LeafFormat::kFloat32, LeafFormat::kBfloat16, LeafFormat::kT2,    LeafFormat::kT5,
    LeafFormat::kTMask,   LeafFormat::kQ4,       LeafFormat::kQ8,    LeafFormat::kE4M3,
    LeafFormat::kN8,      LeafFormat::kN4,       LeafFormat::kBits,  LeafFormat::kE2,
    LeafFormat::kE3,      LeafFormat::kE4,       LeafFormat::kSides, LeafFormat::kTrans};

/// Leaf formats that GPUs read: all except kTrans.
inline constexpr std::span<const LeafFormat> kGpuLeafFormats = std::span(kLeafFormats).first(15);

/// Leaf formats of codes that GPUs read.
inline constexpr std::span<const LeafFormat> kCodeLeafFormats = kGpuLeafFormats.subspan(2);

/// Code format of a leaf format. @throws std::invalid_argument if there is none
inline CodeFormat code_format_of(LeafFormat format) {
  for (const CodeFormat codes :
       {CodeFormat::kT2, CodeFormat::kT5, CodeFormat::kTMask, CodeFormat::kTrans, CodeFormat::kQ4, CodeFormat::kQ8}) {
    if (leaf_format(codes) == format) return codes;
  }
  throw std::invalid_argument("no codes");
}

/// Random leaves. Float payloads start `misalignment` elements into their buffers; codes are aligned.
class TreeLeaves {
 public:
  TreeLeaves(LeafFormat format, int num_workers, std::int64_t count, std::int64_t first, std::int64_t block_elements,
             std::uint64_t seed, std::size_t misalignment = 0, std::int64_t columns = 0)
      : first_(first),
        block_elements_(block_elements),
        columns_(columns),
        scalers_each_(format == LeafFormat::kSides ? 2 : 1) {
    for (int worker = 0; worker < num_workers; ++worker) {
      const std::uint64_t own_seed = seed + static_cast<std::uint64_t>(worker);
      const auto n = static_cast<std::size_t>(count);
      if (format == LeafFormat::kFloat32 || format == LeafFormat::kBfloat16) {
        // Magnitudes differ between workers, so that another order of additions rounds differently.
        std::vector<float> values = gaussian(n, own_seed, std::exp2(worker % 5));
        if (format == LeafFormat::kFloat32) {
          store<float>(values, misalignment);
        } else {
          std::vector<std::uint16_t> halves(n);
          for (std::size_t i = 0; i < n; ++i) {
            halves[i] = to_bfloat16(values[i]);
            values[i] = from_bfloat16(halves[i]);
          }
          store<std::uint16_t>(halves, misalignment);
        }
        values_.push_back(std::move(values));
        continue;
      }
      const std::int64_t num_groups = columns > 0 ? columns : num_blocks(first, count, block_elements);
      scalers_.push_back(gaussian(scalers_each_ * static_cast<std::size_t>(num_groups), own_seed + 99));
      for (float& scaler : scalers_.back()) scaler = std::fabs(scaler);
      if (format == LeafFormat::kE4M3) {
        store_e4m3(n, own_seed);
        continue;
      }
      if (format == LeafFormat::kN8 || format == LeafFormat::kN4) {
        store_exponents(n, format == LeafFormat::kN8 ? 8 : 4, own_seed);
        continue;
      }
      if (format == LeafFormat::kE2 || format == LeafFormat::kE3 || format == LeafFormat::kE4) {
        store_codebook(n, format == LeafFormat::kE2 ? 4 : format == LeafFormat::kE3 ? 8 : 16, own_seed);
        continue;
      }
      if (format == LeafFormat::kBits || format == LeafFormat::kSides) {
        store_signs(n, own_seed);
        continue;
      }
      const CodeFormat codes_in = code_format_of(format);
      levels_ = levels_of(codes_in);
      const std::vector<std::int8_t> codes = random_codes(n, levels_, own_seed);
      payloads_.push_back(packed_codes(codes, codes_in, 1));
      offsets_.push_back(0);
      values_.emplace_back(codes.begin(), codes.end());
    }
  }

  float element(std::size_t worker, std::int64_t i) const {
    const float value = values_[worker][static_cast<std::size_t>(i)];
    if (scalers_.empty()) return value;
    const std::int64_t block = columns_ > 0           ? (first_ + i) % columns_
                               : block_elements_ == 0 ? 0
                                                      : (first_ + i) / block_elements_ - first_ / block_elements_;
    const std::size_t side = scalers_each_ == 2 && value > 0 ? 1 : 0;
    return scalers_[worker][static_cast<std::size_t>(block) * scalers_each_ + side] / static_cast<float>(levels_) *
           value;
  }

  std::vector<MeanLeaf> host_workers() const {
    std::vector<MeanLeaf> leaves;
    for (std::size_t k = 0; k < payloads_.size(); ++k) {
      leaves.push_back({payloads_[k].span().subspan(offsets_[k]), scalers_.empty() ? nullptr : scalers_[k].data()});
    }
    return leaves;
  }

  /// Leaves in device memory, owned by this object.
  std::vector<MeanLeaf> device_workers(Stream& stream) {
    std::vector<MeanLeaf> leaves;
    for (std::size_t k = 0; k < payloads_.size(); ++k) {
      const Buffer<std::uint8_t>& payload = upload<std::uint8_t>(payloads_[k].span(), device_payloads_, stream);
      const float* scalers = scalers_.empty() ? nullptr : upload<float>(scalers_[k], device_scalers_, stream).data();
      leaves.push_back({payload.span().subspan(offsets_[k]), scalers});
    }
    return leaves;
  }

  std::vector<std::vector<float>>& scalers() { return scalers_; }

 private:
  template <class T>
  void store(std::span<const T> values, std::size_t misalignment) {
    offsets_.push_back(misalignment * sizeof(T));
    payloads_.emplace_back(static_cast<std::int64_t>(offsets_.back() + values.size_bytes()));
    if (!values.empty()) std::memcpy(payloads_.back().data() + offsets_.back(), values.data(), values.size_bytes());
  }
  /// Random E4M3 codes other than NaN.
  void store_e4m3(std::size_t n, std::uint64_t seed) {
    offsets_.push_back(0);
    payloads_.emplace_back(payload_bytes(CodeFormat::kE4M3, static_cast<std::int64_t>(n), 1));
    std::fill_n(payloads_.back().data(), payloads_.back().num_elements(), std::uint8_t{0});
    values_.emplace_back(n);
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i < n; ++i) {
      const auto magnitude = static_cast<unsigned>(random() % 127);
      const bool is_negative = magnitude != 0 && random() % 2 == 0;
      payloads_.back().data()[i] = static_cast<std::uint8_t>(magnitude + (is_negative ? 128 : 0));
      const auto value = static_cast<float>(reference::e4m3_magnitude(magnitude));
      values_.back()[i] = is_negative ? -value : value;
    }
  }
  /// Random powers of two among the largest 32 (8 bits) or 7 (4 bits), and zeros.
  void store_exponents(std::size_t n, int bits, std::uint64_t seed) {
    const CodeFormat format = bits == 8 ? CodeFormat::kN8 : CodeFormat::kN4;
    offsets_.push_back(0);
    payloads_.emplace_back(payload_bytes(format, static_cast<std::int64_t>(n), 1));
    std::fill_n(payloads_.back().data(), payloads_.back().num_elements(), std::uint8_t{0});
    values_.emplace_back(n);
    std::mt19937_64 random(seed);
    const auto width = static_cast<std::size_t>(bits);
    for (std::size_t i = 0; i < n; ++i) {
      const auto step = static_cast<unsigned>(random() % (bits == 8 ? 33 : 8));
      const unsigned magnitude = step == 0 ? 0 : step + (bits == 8 ? 95 : 0);
      const bool is_negative = magnitude != 0 && random() % 2 == 0;
      std::uint8_t& byte = payloads_.back().data()[i * width / 8];
      byte = static_cast<std::uint8_t>(byte | (magnitude + (is_negative ? 1u << (bits - 1) : 0)) << (i * width % 8));
      const auto value = static_cast<float>(reference::exponent_magnitude(magnitude, bits));
      values_.back()[i] = is_negative ? -value : value;
    }
  }
  /// Random codes of a codebook.
  void store_codebook(std::size_t n, int levels, std::uint64_t seed) {
    const Codebook book = codebook(levels);
    const CodeFormat format = codebook_format(levels);
    const auto bits = static_cast<std::size_t>(codebook_bits(format));
    offsets_.push_back(0);
    payloads_.emplace_back(payload_bytes(format, static_cast<std::int64_t>(n), 1));
    std::fill_n(payloads_.back().data(), payloads_.back().num_elements(), std::uint8_t{0});
    values_.emplace_back(n);
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i < n; ++i) {
      const auto code = static_cast<unsigned>(random() % static_cast<unsigned>(levels));
      for (std::size_t bit = 0; bit < bits; ++bit) {
        std::uint8_t& byte = payloads_.back().data()[(i * bits + bit) / 8];
        byte = static_cast<std::uint8_t>(byte | (code >> bit & 1u) << ((i * bits + bit) % 8));
      }
      const auto magnitudes = static_cast<unsigned>(book.num_magnitudes);
      const float value = book.values[code % magnitudes];
      values_.back()[i] = code < magnitudes ? value : -value;
    }
  }
  void store_signs(std::size_t n, std::uint64_t seed) {
    offsets_.push_back(0);
    payloads_.emplace_back(payload_bytes(CodeFormat::kBits, static_cast<std::int64_t>(n), 1));
    std::fill_n(payloads_.back().data(), payloads_.back().num_elements(), std::uint8_t{0});
    values_.emplace_back(n);
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i < n; ++i) {
      const bool is_negative = random() % 2 == 0;
      std::uint8_t& byte = payloads_.back().data()[i / 8];
      byte = static_cast<std::uint8_t>(byte | (is_negative ? 1u : 0u) << (i % 8));
      values_.back()[i] = is_negative ? -1.0f : 1.0f;
    }
  }
  template <class T>
  static const Buffer<T>& upload(std::span<const T> values, std::vector<Buffer<T>>& owner, Stream& stream) {
    owner.emplace_back(static_cast<std::int64_t>(values.size()), stream.device());
    copy<T>(values, owner.back().span(), stream);
    return owner.back();
  }

  std::int64_t first_;
  std::int64_t block_elements_;
  std::int64_t columns_;
  std::size_t scalers_each_;
  int levels_ = 1;                          // largest code
  std::vector<std::vector<float>> values_;  // values, or codes
  std::vector<std::vector<float>> scalers_;
  std::vector<Buffer<std::uint8_t>> payloads_;
  std::vector<std::size_t> offsets_;
  std::vector<Buffer<std::uint8_t>> device_payloads_;
  std::vector<Buffer<float>> device_scalers_;
};

}  // namespace terngrad::testing
