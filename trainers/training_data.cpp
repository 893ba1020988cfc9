#include "trainers/training_data.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <utility>

#include "kernels/errors.h"
#include "trainers/data_fingerprint.h"
#include "trainers/xxhash64.h"

namespace terngrad {
namespace {

/// What a process tells of its share. All have one byte order, which messages check elsewhere.
struct ShareNote {
  std::array<std::int64_t, 4> shape = {};  // height, width, channels, classes
  std::int64_t num_examples = 0;
  std::array<char, 16> fingerprint = {};
};

std::string shape_text(const ShareNote& note) {
  return fmt::format("images of {}x{}x{} in {} classes", note.shape[0], note.shape[1], note.shape[2], note.shape[3]);
}

ShareNote note_of(const TrainingData& data) {
  const Dataset& dataset = *data.dataset;
  ShareNote note{.shape = {dataset.height(), dataset.width(), dataset.channels(), dataset.num_classes()},
                 .num_examples = data.num_examples};
  data.fingerprint.copy(note.fingerprint.data(), note.fingerprint.size());
  return note;
}

}  // namespace

TrainingData whole_data(std::shared_ptr<const Dataset> dataset) {
  TrainingData data;
  data.num_examples = dataset->num_examples();
  data.fingerprint = data_fingerprint(*dataset);
  data.dataset = std::move(dataset);
  return data;
}

TrainingData join_shares(const TrainingData& own, Communicator& communicator, int num_servers) {
  const ShareNote own_note = note_of(own);
  Parcels mine;
  Parcels all;
  mine.append({reinterpret_cast<const std::uint8_t*>(&own_note), sizeof(own_note)});
  communicator.all_gather(mine, all);
  TrainingData data;
  data.dataset = own.dataset;
  data.is_share = true;
  Xxhash64 hash;
  ShareNote first;
  if (all.count() != static_cast<std::size_t>(communicator.size())) {
    TERNGRAD_THROW(CommunicationError, "[data] ", all.count(), " shares are told of by ", communicator.size(),
                   " ranks");
  }
  for (int rank = 0; rank < communicator.size() - num_servers; ++rank) {
    ShareNote note;
    const std::span<const std::uint8_t> parcel = all.parcel(static_cast<std::size_t>(rank));
    if (parcel.size() != sizeof(note)) {
      TERNGRAD_THROW(CommunicationError, "[data] rank ", rank, " tells of its share in ", parcel.size(), " bytes");
    }
    std::memcpy(&note, parcel.data(), sizeof(note));
    if (rank == 0) first = note;
    if (note.shape != first.shape) {
      TERNGRAD_THROW(DataError, "--data_shares: rank 0 has ", shape_text(first), ", rank ", rank, " ", shape_text(note),
                     "; all shares must have the same");
    }
    data.num_examples += note.num_examples;
    hash.add(std::as_bytes(std::span(&note, 1)));
  }
  data.fingerprint = fmt::format("{:016x}", hash.value());
  return data;
}

std::string share_folder(const std::string& data_dir, int rank, int num_processes) {
  const int share = rank < num_processes ? rank : 0;
  return (std::filesystem::path(data_dir) / fmt::format("worker_{}_of_{}", share, num_processes)).string();
}

}  // namespace terngrad
