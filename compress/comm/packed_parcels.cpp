#include "compress/comm/packed_parcels.h"

#include <cstring>

#include "kernels/runtime/errors.h"

namespace terngrad {

std::vector<std::uint64_t> pack_parcels(const Parcels& parcels) {
  const std::span<const std::uint8_t> storage = parcels.storage();
  std::vector<std::uint64_t> message(1 + parcels.count() + storage.size() / 8);
  message[0] = parcels.count();
  for (std::size_t i = 0; i < parcels.count(); ++i) message[1 + i] = parcels.sizes()[i];
  if (!storage.empty()) std::memcpy(message.data() + 1 + parcels.count(), storage.data(), storage.size());
  return message;
}

void unpack_parcels(std::span<const std::uint8_t> bytes, const char* operation, int rank, Parcels& all) {
  const std::size_t given = bytes.size();
  const auto refuse = [&] {
    TERNGRAD_THROW(CommunicationError, "[communicator] ", operation, " gave ", given, " bytes for rank ", rank,
                   " that are no parcels");
  };
  std::uint64_t count = 0;
  if (bytes.size() < sizeof(count)) refuse();
  std::memcpy(&count, bytes.data(), sizeof(count));
  bytes = bytes.subspan(sizeof(count));
  if (count > bytes.size() / 8) refuse();
  std::vector<std::uint64_t> sizes(static_cast<std::size_t>(count));
  if (count > 0) std::memcpy(sizes.data(), bytes.data(), 8 * sizes.size());
  bytes = bytes.subspan(8 * sizes.size());
  std::uint64_t total = 0;
  for (const std::uint64_t size : sizes) {
    if (size > bytes.size()) refuse();
    total += static_cast<std::uint64_t>(parcel_bytes(size));
  }
  if (total != bytes.size()) refuse();
  const std::span<std::uint8_t> storage = all.extend(sizes);
  if (!storage.empty()) std::memcpy(storage.data(), bytes.data(), storage.size());
}

}  // namespace terngrad
