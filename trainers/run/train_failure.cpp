#include "trainers/run/train_failure.h"

#include <exception>
#include <new>
#include <optional>
#include <string>

#include "kernels/runtime/errors.h"
#include "trainers/checkpoint/checkpoint.h"

namespace terngrad {
namespace {

std::string advice(const Folder& train_dir) {
  std::optional<CheckpointFile> saved;
  try {
    saved = latest_checkpoint(train_dir);
  } catch (const DataError&) {
    return "; the folder " + train_dir.path().string() + " cannot be read";  // the first error counts
  }
  if (!saved) return "; no checkpoint was saved yet";
  return "; continue from " + saved->path.string() + " with --resume";
}

}  // namespace

void rethrow_with_advice(const Folder& train_dir) {
  try {
    throw;
  } catch (const UsageError& error) {
    TERNGRAD_THROW(UsageError, error.what(), advice(train_dir));
  } catch (const NonFiniteError& error) {
    TERNGRAD_THROW(Error, error.what(), advice(train_dir),
                   "; the same options stop there again; add --on_nonfinite skip or zero to --resume");
  } catch (const std::bad_alloc&) {
    TERNGRAD_THROW(Error, "out of memory while training", advice(train_dir));
  } catch (const std::exception& error) {
    TERNGRAD_THROW(Error, error.what(), advice(train_dir));
  }
}

}  // namespace terngrad
