#include "trainers/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <span>

#include "kernels/errors.h"

namespace terngrad {

AppendFile::AppendFile(const std::filesystem::path& path, int flags, OnWriteError on_error)
    : file_(path, O_WRONLY | O_CREAT | O_APPEND | flags), on_error_(on_error) {}

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

void AppendFile::sync() {
  write_pending();
  file_.sync();
}

void AppendFile::write_pending() {
  if (pending_.empty()) return;
  const std::int64_t length_before = file_.num_bytes();
  try {
    file_.write_all(std::as_bytes(std::span(pending_.data(), pending_.size())));
  } catch (const DataError&) {
    // If this fails too, a part of a record stays; the first error is the cause.
    [[maybe_unused]] const int ignored = ::ftruncate(file_.get(), length_before);
    throw;
  }
  pending_.clear();
}

}  // namespace terngrad
