#include "compress/comm/all_gather_doubles.h"

#include <algorithm>
#include <cstring>

#include "kernels/runtime/errors.h"

namespace terngrad {

std::vector<std::vector<double>> all_gather_doubles(Communicator& communicator, std::span<const double> own) {
  Parcels mine;
  Parcels all;
  mine.append({reinterpret_cast<const std::uint8_t*>(own.data()), own.size_bytes()});
  communicator.all_gather(mine, all);
  std::vector<std::vector<double>> numbers(all.count());
  for (std::size_t rank = 0; rank < all.count(); ++rank) {
    const std::span<const std::uint8_t> bytes = all.parcel(rank);
    if (bytes.size() != own.size_bytes()) {
      TERNGRAD_THROW(CommunicationError, "[all_gather_doubles] rank ", rank, " has ", bytes.size() / sizeof(double),
                     " numbers, this one ", own.size());
    }
    numbers[rank].resize(own.size());
    if (!own.empty()) std::memcpy(numbers[rank].data(), bytes.data(), bytes.size());
  }
  return numbers;
}

std::vector<double> max_over_ranks(Communicator& communicator, std::span<const double> own) {
  std::vector<double> max(own.begin(), own.end());
  for (const std::vector<double>& numbers : all_gather_doubles(communicator, own)) {
    std::ranges::transform(max, numbers, max.begin(), [](double a, double b) { return std::max(a, b); });
  }
  return max;
}

}  // namespace terngrad
