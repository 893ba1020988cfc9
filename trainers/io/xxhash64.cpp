#include "trainers/io/xxhash64.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace terngrad {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read in place");

// The primes of the specification.
constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87u;
constexpr std::uint64_t kPrime2 = 0xC2B2AE3D27D4EB4Fu;
constexpr std::uint64_t kPrime3 = 0x165667B19E3779F9u;
constexpr std::uint64_t kPrime4 = 0x85EBCA77C2B2AE63u;
constexpr std::uint64_t kPrime5 = 0x27D4EB2F165667C5u;

template <class Word>
std::uint64_t load(const std::byte* data) {
  Word word;
  std::memcpy(&word, data, sizeof(word));
  return word;
}

std::uint64_t mix_round(std::uint64_t lane, std::uint64_t input) {
  return std::rotl(lane + input * kPrime2, 31) * kPrime1;
}

std::uint64_t merge_lane(std::uint64_t hash, std::uint64_t lane) {
  return (hash ^ mix_round(0, lane)) * kPrime1 + kPrime4;
}

std::uint64_t avalanche(std::uint64_t hash) {
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

}  // namespace

Xxhash64::Xxhash64() : lanes_{kPrime1 + kPrime2, kPrime2, 0, 0 - kPrime1}, pending_{} {}

Xxhash64& Xxhash64::add(std::span<const std::byte> bytes) {
  num_bytes_ += bytes.size();
  if (num_pending_ > 0) {
    const std::size_t taken = std::min(bytes.size(), kStripeBytes - num_pending_);
    std::copy_n(bytes.begin(), taken, pending_.begin() + static_cast<std::ptrdiff_t>(num_pending_));
    num_pending_ += taken;
    bytes = bytes.subspan(taken);
    if (num_pending_ < kStripeBytes) return *this;
    consume_stripes(pending_.data(), 1);
    num_pending_ = 0;
  }
  const std::size_t num_stripes = bytes.size() / kStripeBytes;
  consume_stripes(bytes.data(), num_stripes);
  const std::span<const std::byte> rest = bytes.subspan(num_stripes * kStripeBytes);
  std::copy(rest.begin(), rest.end(), pending_.begin());
  num_pending_ = rest.size();
  return *this;
}

Xxhash64& Xxhash64::add(std::uint64_t value) { return add(std::as_bytes(std::span(&value, 1))); }

void Xxhash64::consume_stripes(const std::byte* data, std::size_t num_stripes) {
  std::array<std::uint64_t, 4> lanes = lanes_;
  for (std::size_t stripe = 0; stripe < num_stripes; ++stripe, data += kStripeBytes) {
    for (std::size_t lane = 0; lane < 4; ++lane)
      lanes[lane] = mix_round(lanes[lane], load<std::uint64_t>(data + 8 * lane));
  }
  lanes_ = lanes;
}

std::uint64_t Xxhash64::value() const {
  std::uint64_t hash = kPrime5;
  if (num_bytes_ >= kStripeBytes) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) + std::rotl(lanes_[3], 18);
    for (const std::uint64_t lane : lanes_) hash = merge_lane(hash, lane);
  }
  hash += num_bytes_;
  const std::byte* data = pending_.data();
  const std::byte* const end = data + num_pending_;
  for (; end - data >= 8; data += 8) {
    hash = std::rotl(hash ^ mix_round(0, load<std::uint64_t>(data)), 27) * kPrime1 + kPrime4;
  }
  if (end - data >= 4) {
    hash = std::rotl(hash ^ (load<std::uint32_t>(data) * kPrime1), 23) * kPrime2 + kPrime3;
    data += 4;
  }
  for (; data != end; ++data) hash = std::rotl(hash ^ (load<std::uint8_t>(data) * kPrime5), 11) * kPrime1;
  return avalanche(hash);
}

}  // namespace terngrad
