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
  // A part that an earlier try left behind and could not take back goes first.
  if (whole_length_) file_.truncate(*whole_length_);
  whole_length_ = file_.num_bytes();
  try {
    file_.write_all(std::as_bytes(std::span(pending_.data(), pending_.size())));
  } catch (const DataError&) {
    // If this fails too, the next try begins with it; the first error is the cause.
    if (::ftruncate(file_.get(), *whole_length_) == 0) whole_length_.reset();
    throw;
  }
  whole_length_.reset();
  pending_.clear();
}

}  // namespace terngrad
