// Reads whole files, and replaces them atomically: a crash leaves either the old content or the new.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainers/io/folder.h"

namespace terngrad {

/// Replaces the file `name` in a folder by the concatenation of `parts`: writes a temporary in the same folder, fsyncs
/// it, renames it over `name` and fsyncs the folder. A reader, also after a crash or a kill at any point, finds the old
/// file or the complete new one. A symbolic link of that name is replaced, not followed.
/// @throws DataError with the file's name and the system's reason if anything fails (no folder, no space, no
/// permission), and where `name` is a folder, a device or a pipe. The temporary is removed then and the old file is
/// intact. Exception: if the folder's fsync fails, the new file is in place, and the message says that a power failure
/// may bring back the old one
void write_file_atomically(const Folder& folder, const std::string& name,
                           std::span<const std::span<const std::byte>> parts);
void write_file_atomically(const Folder& folder, const std::string& name, std::string_view text);
/// The same for content that is generated piece by piece: `fill` is called once and calls `write` with each piece.
/// @throws DataError as above, also from `write`; other exceptions of `fill` pass through and leave the old file intact
using WritePiece = std::function<void(std::span<const std::byte> piece)>;
void write_file_atomically(const Folder& folder, const std::string& name,
                           const std::function<void(const WritePiece& write)>& fill);
/// The same for a path. A symbolic link is followed: its target is replaced.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Checks, before a long computation, that write_file_atomically can write its result to `path`. An existing file is
/// not changed, and no new file remains.
/// @throws DataError with the file's name and the reason if it cannot
void require_writable(const std::filesystem::path& path);

/// True if `name` is the name of a temporary of write_file_atomically (".<file>.<number>.tmp").
bool is_temporary_name(std::string_view name);

/// Removes temporaries that killed writers of files named `prefix...` left in `folder`. Not to be called while another
/// process writes such files there. @returns the number of files removed
/// @throws DataError if the folder cannot be read or a temporary cannot be removed
int remove_stale_temporaries(const Folder& folder, std::string_view prefix = "");

/// The bytes of a regular file. @throws DataError if it is missing, not a regular file, or cannot be read
std::vector<std::byte> read_file_bytes(const std::filesystem::path& path);

/// The same for a file that is open for reading, from its beginning.
std::vector<std::byte> read_file_bytes(const FileDescriptor& file);

/// The same as text.
std::string read_file_text(const std::filesystem::path& path);
std::string read_file_text(const FileDescriptor& file);

}  // namespace terngrad
