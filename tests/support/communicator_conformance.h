// Tests that every Communicator must pass. All ranks call these functions with the same arguments.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "compress/comm/communicator.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/float16.h"

namespace terngrad::testing {

/// Content of a parcel, different for each sender, receiver and number; sizes include 0 and odd sizes.
inline std::vector<std::uint8_t> parcel_content(int from, int to, std::size_t number, std::size_t scale) {
  std::vector<std::uint8_t> bytes((static_cast<std::size_t>(from) * 3 + static_cast<std::size_t>(to) + number) * scale %
                                  (7 * scale + 1));
  std::uint32_t state = static_cast<std::uint32_t>(from * 1000003 + to * 1009) + static_cast<std::uint32_t>(number);
  for (std::uint8_t& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<std::uint8_t>(state >> 24);
  }
  return bytes;
}

/// Number of parcels that rank `from` sends: from + 1, the last rank none.
inline std::size_t num_parcels(const Communicator& c, int from) {
  return from == c.size() - 1 && c.size() > 1 ? 0 : static_cast<std::size_t>(from) + 1;
}

inline void expect_parcel(std::span<const std::uint8_t> parcel, const std::vector<std::uint8_t>& expected) {
  ASSERT_EQ(parcel.size(), expected.size());
  EXPECT_TRUE(std::equal(parcel.begin(), parcel.end(), expected.begin()));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(parcel.data()) % 8, 0u);
}

/// @param scale  largest parcel size / 7
inline void check_all_gather(Communicator& c, std::size_t scale) {
  Parcels mine;
  Parcels all;
  for (int round = 0; round < 2; ++round) {  // twice: storage is reused
    mine.clear();
    for (std::size_t i = 0; i < num_parcels(c, c.rank()); ++i) mine.append(parcel_content(c.rank(), round, i, scale));
    c.all_gather(mine, all);
    std::size_t next = 0;
    for (int from = 0; from < c.size(); ++from) {
      for (std::size_t i = 0; i < num_parcels(c, from); ++i) {
        ASSERT_LT(next, all.count());
        expect_parcel(all.parcel(next++), parcel_content(from, round, i, scale));
      }
    }
    EXPECT_EQ(next, all.count());
  }
}

inline void check_all_to_all(Communicator& c, std::size_t scale) {
  Parcels incoming;
  for (int round = 0; round < 2; ++round) {
    std::vector<Parcels> outgoing(static_cast<std::size_t>(c.size()));
    for (int to = 0; to < c.size(); ++to) {
      for (std::size_t i = 0; i < num_parcels(c, c.rank()); ++i) {
        outgoing[static_cast<std::size_t>(to)].append(parcel_content(c.rank(), to, i, scale));
      }
    }
    c.all_to_all(outgoing, incoming);
    std::size_t next = 0;
    for (int from = 0; from < c.size(); ++from) {
      for (std::size_t i = 0; i < num_parcels(c, from); ++i) {
        ASSERT_LT(next, incoming.count());
        expect_parcel(incoming.parcel(next++), parcel_content(from, c.rank(), i, scale));
      }
    }
    EXPECT_EQ(next, incoming.count());
  }
}

inline void check_reductions(Communicator& c, std::size_t count) {
  std::vector<std::uint64_t> sums(count);
  std::vector<std::uint32_t> maxima(count);
  const auto summand = [](std::size_t i, int rank) {
    return (std::uint64_t{i} * 0x9E3779B97F4A7C15u) ^ (static_cast<std::uint64_t>(rank) << 60);  // sums overflow
  };
  const auto candidate = [](std::size_t i, int rank) {
    return static_cast<std::uint32_t>(i * 2654435761u + static_cast<std::uint32_t>(rank) * 0x7FFFFFFFu);
  };
  for (std::size_t i = 0; i < count; ++i) {
    sums[i] = summand(i, c.rank());
    maxima[i] = candidate(i, c.rank());
  }
  c.all_reduce_sum(sums);
  c.all_reduce_max(maxima);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t sum = 0;
    std::uint32_t max = 0;
    for (int rank = 0; rank < c.size(); ++rank) {
      sum += summand(i, rank);
      max = std::max(max, candidate(i, rank));
    }
    ASSERT_EQ(sums[i], sum) << i;
    ASSERT_EQ(maxima[i], max) << i;
  }
}

inline void check_broadcast(Communicator& c, std::size_t bytes) {
  for (int root = 0; root < c.size(); ++root) {
    std::vector<std::uint8_t> values(bytes, static_cast<std::uint8_t>(c.rank() + 1));
    c.broadcast(values, root);
    EXPECT_EQ(values, std::vector<std::uint8_t>(bytes, static_cast<std::uint8_t>(root + 1)));
  }
}

/// Sums small integers, which are exact in every order and element type.
inline void check_vendor_sum(Communicator& c, std::size_t count) {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16, ElementType::kFloat16}) {
    Stream stream(Device::cpu(), 1);
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = static_cast<float>(i % 13) - 6 + static_cast<float>(c.rank());
    }
    std::vector<std::uint16_t> rounded(count);
    FloatSpan sum{values.data(), static_cast<std::int64_t>(count), type};
    if (type != ElementType::kFloat32) {
      (type == ElementType::kBfloat16 ? encode_bfloat16 : encode_float16)(values, rounded, stream);
      sum.values = rounded.data();
    }
    c.vendor_sum(sum);
    std::vector<float> result(count);
    widen(sum.values, type, result, stream);
    for (std::size_t i = 0; i < count; ++i) {
      const int n = c.size();
      ASSERT_EQ(result[i],
                (static_cast<float>(i % 13) - 6) * static_cast<float>(n) + static_cast<float>(n * (n - 1) / 2))
          << i;
    }
  }
}

/// Runs all checks, with empty, small and large messages.
inline void check_communicator(Communicator& c) {
  for (const std::size_t scale : {0u, 1u, 13u, 1000u, 100000u}) {
    check_all_gather(c, scale);
    check_all_to_all(c, scale);
  }
  for (const std::size_t count : {0u, 1u, 5u, 256u, 257u, 100003u}) check_reductions(c, count);
  for (const std::size_t count : {0u, 1u, 100003u}) check_vendor_sum(c, count);
  for (const std::size_t bytes : {0u, 1u, 4000u, 4096u, 300007u}) check_broadcast(c, bytes);
  c.barrier();
}

}  // namespace terngrad::testing
