// Checkpoints: the complete state of a run in one safetensors file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/tensor/layout.h"
#include "trainers/checkpoint/run_identity.h"
#include "trainers/io/folder.h"
#include "trainers/io/safetensors.h"

namespace terngrad {

/// Metadata of a checkpoint. Contains no time, host or path: equal states give equal files.
struct CheckpointState {
  std::uint64_t step = 0;  // steps done; also the 0-based number of the next step
  std::string net;
  std::string dataset;
  std::string optimizer;
  int num_workers = 1;
  std::uint64_t seed = 0;
  std::map<std::string, std::string> extra_metadata;  // further entries by name, e.g. {"codec", "ternary"}

  friend bool operator==(const CheckpointState&, const CheckpointState&) = default;
};

/// A flat buffer to save: every segment of its layout becomes the tensor "<name>/<segment name>", without the padding.
struct CheckpointGroup {
  std::string name;                // e.g. "parameters", "ema", "slots/momentum", "residual/0003"
  std::span<const float> values;   // [layout.flat_elements()], on the host
  const Layout* layout = nullptr;  // nullptr: CheckpointView::layout
};

/// Views of a state to save.
struct CheckpointView {
  CheckpointState state;
  const Layout* layout = nullptr;  // layout of the net's parameters
  std::vector<CheckpointGroup> groups;
};

/// Step and path of a checkpoint file.
struct CheckpointFile {
  std::uint64_t step = 0;
  std::filesystem::path path;

  friend bool operator==(const CheckpointFile&, const CheckpointFile&) = default;
};

/// A verified checkpoint in memory. The file is a safetensors file of F32 tensors whose `__metadata__` holds
///   format_version      "1"
///   step, num_workers, seed   decimal numbers
///   net, dataset, optimizer   names
///   layout_fingerprint  16 hexadecimal digits (Layout::fingerprint of the net)
///   checksum            16 hexadecimal digits: XXH64 over, for each other metadata entry in order of names, key and
///                       value; then for each tensor in order of names: name, type name, number of dimensions,
///                       dimensions, and the data. Strings are preceded by their length; numbers are 8 bytes,
///                       little-endian. It does not depend on the order of tensors in the file
/// and every entry of CheckpointState::extra_metadata under its own name.
class Checkpoint {
 public:
  const std::string& source() const { return file_.source(); }
  /// Content of the whole file, as parse_checkpoint reads it.
  std::span<const std::byte> content() const { return file_.content(); }
  const CheckpointState& state() const { return state_; }
  std::uint64_t layout_fingerprint() const { return layout_fingerprint_; }
  /// Checksum of metadata and tensors; see above.
  std::string checksum() const { return metadata("checksum"); }
  std::span<const TensorRecord> tensors() const { return file_.tensors(); }

  /// True if the file has a tensor whose name begins with "<group>/".
  bool has_group(std::string_view group) const;

  /// Throws unless the tensors of `group` match those of `layout` in name and shape.
  /// @throws DataError naming the first tensor that differs, with the shapes expected and found
  void check_matches(const Layout& layout, std::string_view group = "parameters") const;

  /// Copies a group into a flat buffer; padding is set to zero.
  /// @param values  [layout.flat_elements()] out
  /// @throws DataError as check_matches, InvalidArgument if `values` has another length
  void read_group(std::string_view group, const Layout& layout, std::span<float> values) const;

  /// Copies one tensor of a group. @param values  [segment.num_elements] out
  /// @throws DataError as check_matches does if the group has no tensor of this name and shape
  void read_tensor(std::string_view group, const Segment& segment, std::span<float> values) const;

  /// Throws unless a run with identity `expected` can continue this checkpoint.
  /// @throws UsageError as check_same_run of run_identity.h
  void check_same_run(const RunIdentity& expected) const;

 private:
  friend Checkpoint parse_checkpoint(std::vector<std::byte> content, std::string source);
  explicit Checkpoint(SafetensorsFile file);
  std::string metadata(const std::string& key) const;
  const TensorRecord& matching(std::string_view group, const Segment& segment) const;
  void verify_checksum() const;

  SafetensorsFile file_;
  CheckpointState state_;
  std::uint64_t layout_fingerprint_ = 0;
};

/// Path of the checkpoint of `step` in `directory`: checkpoint-<step with at least 10 digits>.safetensors.
std::filesystem::path checkpoint_path(const std::filesystem::path& directory, std::uint64_t step);

/// The checkpoints in `directory`, oldest step first; other files are ignored. A missing directory has none.
/// @throws DataError if the directory cannot be read
std::vector<CheckpointFile> list_checkpoints(const std::filesystem::path& directory);
std::vector<CheckpointFile> list_checkpoints(const Folder& folder);

/// The checkpoint with the highest step; the file is not opened. nullopt if there is none.
std::optional<CheckpointFile> latest_checkpoint(const std::filesystem::path& directory);
std::optional<CheckpointFile> latest_checkpoint(const Folder& folder);

/// Saves `view` in `folder` (write_file_atomically). Removes temporaries of killed runs before, and all but the
/// `keep_last` newest of the checkpoints up to this step after the file is durable. Equal views give equal bytes.
/// @param keep_last  0 keeps all
/// @returns path of the new file
/// @throws DataError if it cannot be written (older checkpoints stay intact), InvalidArgument if a group does not fit
/// its layout or an entry of state.extra_metadata has a reserved name
std::filesystem::path save_checkpoint(const Folder& folder, const CheckpointView& view, int keep_last = 0);
std::filesystem::path save_checkpoint(const std::filesystem::path& directory, const CheckpointView& view,
                                      int keep_last = 0);

/// Reads and verifies a checkpoint.
/// @throws DataError naming file and field if it is missing, damaged or of another format version. The message also
/// names the newest intact checkpoint of a lower step in the folder, if there is one, as a replacement
Checkpoint load_checkpoint(const std::filesystem::path& path);

/// The same for the content of a file. @param source  name of the file in errors
/// @throws DataError as load_checkpoint, but names no other file
Checkpoint parse_checkpoint(std::vector<std::byte> content, std::string source);

}  // namespace terngrad
