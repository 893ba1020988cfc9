#include "kernels/sparse/nonzeros.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "kernels/runtime/errors.h"
#include "kernels/sparse/sparse_payload.h"

namespace terngrad {
namespace {

SparseShape shape_of(std::int64_t count, std::int64_t num_places) {
  return {.format = SparseFormat::kRuns, .num_elements = count, .num_places = num_places};
}

/// Number of places in a payload, from its first word.
std::int64_t num_places_of(std::span<const std::uint8_t> payload) {
  std::uint32_t number = 0;
  std::memcpy(&number, payload.data(), sizeof number);
  return number;
}

}  // namespace

bool nonzeros_fit(std::int64_t count, std::int64_t max_places) {
  return runs_fit(shape_of(count, std::min(count, max_places)));
}

std::int64_t max_nonzero_bytes(std::int64_t count, std::int64_t max_places) {
  return max_sparse_bytes(shape_of(count, std::min(count, max_places)));
}

std::int64_t write_nonzeros(std::span<const float> values, std::int64_t max_places, std::uint8_t* payload) {
  std::vector<std::uint32_t> places;
  std::vector<float> found;
  const auto num_nonzero = static_cast<std::size_t>(
      std::ranges::count_if(values, [](float value) { return std::bit_cast<std::uint32_t>(value) != 0; }));
  places.reserve(num_nonzero);
  found.reserve(num_nonzero);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(values[i]) == 0) continue;
    places.push_back(static_cast<std::uint32_t>(i));
    found.push_back(values[i]);
  }
  const auto num_places = static_cast<std::int64_t>(places.size());
  TERNGRAD_REQUIRE(num_places <= max_places, "[nonzeros] ", num_places, " of ", values.size(),
                   " elements are not zero, at most ", max_places, " can be");
  return write_sparse(shape_of(static_cast<std::int64_t>(values.size()), num_places), places, found, payload);
}

void check_nonzeros(std::int64_t count, std::int64_t max_places, std::span<const std::uint8_t> payload) {
  const std::int64_t most = std::min(count, max_places);
  if (payload.size() < sizeof(std::uint32_t) || num_places_of(payload) > most) {
    TERNGRAD_THROW(CommunicationError, "[nonzeros] payload of ", payload.size(), " bytes, of ", count,
                   " elements: it says no number of places from 0 to ", most);
  }
  const SparseShape shape = shape_of(count, num_places_of(payload));
  check_sparse(shape, payload);
  for (const float value : sparse_values(shape, payload)) {
    if (std::bit_cast<std::uint32_t>(value) != 0) continue;
    TERNGRAD_THROW(CommunicationError, "[nonzeros] payload of ", count, " elements: a value is zero");
  }
}

void read_nonzeros(std::span<const std::uint8_t> payload, std::span<float> out) {
  std::ranges::fill(out, 0.0f);
  put_sparse(shape_of(static_cast<std::int64_t>(out.size()), num_places_of(payload)), payload, out);
}

}  // namespace terngrad
