#include "trainers/io/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <span>
#include <utility>

#include "kernels/runtime/errors.h"
#include "trainers/io/atomic_file.h"

namespace terngrad {

namespace {

// Readable too, so that the content of a deleted file can be written again.
constexpr int kFlags = O_RDWR | O_APPEND;

}  // namespace

AppendFile::AppendFile(Folder folder, std::string name, int flags, OnWriteError on_error)
    : folder_(std::move(folder)),
      name_(std::move(name)),
      file_(folder_.open(name_, kFlags | O_CREAT | flags)),
      on_error_(on_error) {}

AppendFile::AppendFile(const std::filesystem::path& path, int flags, OnWriteError on_error)
    : AppendFile(Folder::of(path), path.filename().string(), flags, on_error) {}

void AppendFile::append(std::string_view record) {
  pending_ += record;
  try {
    write_pending();
  } catch (const DataError&) {
    if (on_error_ == OnWriteError::kKeep) return;
    pending_.clear();
    throw;
  }
}

bool AppendFile::sync() {
  write_pending();
  const bool is_lost = !folder_.leads_to(name_, file_);
  if (is_lost) restore();
  file_.sync();
  return is_lost;
}

void AppendFile::restore() {
  if (folder_.has(name_)) {
    TERNGRAD_THROW(DataError, "'", (folder_.path() / name_).string(),
                   "' is another file than the one that was being written: move it away, so that this one can be saved "
                   "under its name");
  }
  write_file_atomically(folder_, name_, read_file_text(file_));
  file_ = folder_.open(name_, kFlags);
}

void AppendFile::write_pending() {
  if (pending_.empty()) return;
  // First truncate a partial record that an earlier attempt could not remove.
  if (whole_length_) file_.truncate(*whole_length_);
  whole_length_ = file_.num_bytes();
  try {
    file_.write_all(std::as_bytes(std::span(pending_.data(), pending_.size())));
  } catch (const DataError&) {
    // If the truncation fails too, the next attempt begins with it. Report the first error.
    if (::ftruncate(file_.get(), *whole_length_) == 0) whole_length_.reset();
    throw;
  }
  whole_length_.reset();
  pending_.clear();
}

}  // namespace terngrad
