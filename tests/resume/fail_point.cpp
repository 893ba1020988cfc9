// A library for LD_PRELOAD that makes one file-system call of a program fail, or kills the program there. It counts the
// calls on the folder TERNGRAD_FAIL_FOLDER and on files in it from 1, and acts at call number TERNGRAD_FAIL_CALL.
// Counted calls: open, write, ftruncate, fsync, rename, unlink and mkdir, and openat, renameat and unlinkat, which
// std::filesystem uses and which are listed without "at". The commands change files by these calls only.
//   TERNGRAD_FAIL_ACTION=kill_before  SIGKILL instead of the call; a write writes half of its data first
//   TERNGRAD_FAIL_ACTION=kill_after   SIGKILL after the call
//   TERNGRAD_FAIL_ACTION=full_once    the call fails with ENOSPC (a write after half of its data)
//   TERNGRAD_FAIL_ACTION=full_twice   this call and the next one fail
//   TERNGRAD_FAIL_ACTION=full_then_kill  this call fails, and the next one is replaced by SIGKILL as in kill_before
//   TERNGRAD_FAIL_ACTION=full_after   this call and all later ones fail, except opening for reading. (Removing and
//                                     truncating also need space on copy-on-write file systems.) If TERNGRAD_FAIL_LIST
//                                     names a file, each call appends a line to it: the call's name and the file's
//                                     name.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>

namespace {

enum class Action { kNone, kKillBefore, kKillAfter, kFullOnce, kFullTwice, kFullThenKill, kFullAfter };

/// Outcome of one call.
enum class Fate { kDone, kKilledBefore, kKilledAfter, kFull };

struct Plan {
  std::string folder;
  long call = 0;
  Action action = Action::kNone;
  std::string list;
};

std::string environment(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

const Plan& plan() {
  static const Plan result = [] {
    const std::string action = environment("TERNGRAD_FAIL_ACTION");
    Plan made{environment("TERNGRAD_FAIL_FOLDER"), std::atol(environment("TERNGRAD_FAIL_CALL").c_str()), Action::kNone,
              environment("TERNGRAD_FAIL_LIST")};
    if (made.folder.empty()) return made;
    if (action == "kill_before") made.action = Action::kKillBefore;
    if (action == "kill_after") made.action = Action::kKillAfter;
    if (action == "full_once") made.action = Action::kFullOnce;
    if (action == "full_twice") made.action = Action::kFullTwice;
    if (action == "full_then_kill") made.action = Action::kFullThenKill;
    if (action == "full_after") made.action = Action::kFullAfter;
    return made;
  }();
  return result;
}

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

ssize_t real_write(int fd, const void* data, size_t count) {
  static const auto function = real<ssize_t (*)(int, const void*, size_t)>("write");
  return function(fd, data, count);
}

bool is_watched(const std::string& path) {
  if (plan().folder.empty()) return false;
  return path == plan().folder || path.starts_with(plan().folder + "/");
}

/// Empty for a null pointer, which the real call reports.
std::string text_of(const char* path) { return path == nullptr ? "" : path; }

/// Path of an open file; empty if unknown.
std::string path_of(int fd) {
  if (plan().folder.empty()) return "";
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = readlink(link.c_str(), path, sizeof(path));
  return length <= 0 ? "" : std::string(path, static_cast<std::size_t>(length));
}

/// Path that `path` means relative to the open folder.
std::string path_at(int folder, const char* path) {
  const std::string name = text_of(path);
  if (folder == AT_FDCWD || name.starts_with('/')) return name;
  const std::string base = path_of(folder);
  return name == "." ? base : base + "/" + name;
}

[[noreturn]] void die() {
  kill(getpid(), SIGKILL);
  while (true) pause();
}

void note(const char* name, const std::string& path) {
  static const auto open_list = real<int (*)(const char*, int, ...)>("open");
  const int list = open_list(plan().list.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  const std::string line = name + (" " + path.substr(path.rfind('/') + 1)) + "\n";
  if (real_write(list, line.data(), line.size()) < 0) abort();
  close(list);
}

/// Outcome of the call that comes `distance` calls after the selected one.
Fate fate_of(long distance, bool writes) {
  switch (plan().action) {
    case Action::kKillBefore:
      return distance == 0 ? Fate::kKilledBefore : Fate::kDone;
    case Action::kKillAfter:
      return distance == 0 ? Fate::kKilledAfter : Fate::kDone;
    case Action::kFullOnce:
      return distance == 0 ? Fate::kFull : Fate::kDone;
    case Action::kFullTwice:
      return distance == 0 || distance == 1 ? Fate::kFull : Fate::kDone;
    case Action::kFullThenKill:
      return distance == 0 ? Fate::kFull : distance == 1 ? Fate::kKilledBefore : Fate::kDone;
    case Action::kFullAfter:
      return distance == 0 || (distance > 0 && writes) ? Fate::kFull : Fate::kDone;
    default:
      return Fate::kDone;
  }
}

/// Counts a call on `path`, lists it if requested, and returns its outcome.
Fate next(const char* name, const std::string& path, bool writes) {
  if (!is_watched(path)) return Fate::kDone;
  static long number = 0;
  ++number;
  if (!plan().list.empty()) note(name, path);
  return fate_of(number - plan().call, writes);
}

/// Wraps a call that cannot be done in part.
template <class Call>
auto guarded(const char* name, const std::string& path, bool writes, const Call& call) -> decltype(call()) {
  const Fate fate = next(name, path, writes);
  if (fate == Fate::kKilledBefore) die();
  if (fate == Fate::kFull) {
    errno = ENOSPC;
    return -1;
  }
  const auto result = call();
  if (fate == Fate::kKilledAfter) die();
  return result;
}

}  // namespace

extern "C" {

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  static const auto function = real<int (*)(const char*, int, ...)>("open");
  return guarded("open", text_of(path), (flags & O_ACCMODE) != O_RDONLY, [&] { return function(path, flags, mode); });
}

int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  static const auto function = real<int (*)(int, const char*, int, ...)>("openat");
  return guarded("open", path_at(folder, path), (flags & O_ACCMODE) != O_RDONLY,
                 [&] { return function(folder, path, flags, mode); });
}

ssize_t write(int fd, const void* data, size_t count) {
  const Fate fate = next("write", path_of(fd), true);
  if (fate == Fate::kDone) return real_write(fd, data, count);
  // A failing write leaves a part of its data, as on a full disk.
  [[maybe_unused]] const ssize_t written = real_write(fd, data, fate == Fate::kKilledAfter ? count : count / 2);
  if (fate != Fate::kFull) die();
  errno = ENOSPC;
  return -1;
}

int ftruncate(int fd, off_t length) {
  static const auto function = real<int (*)(int, off_t)>("ftruncate");
  return guarded("ftruncate", path_of(fd), true, [&] { return function(fd, length); });
}

int fsync(int fd) {
  static const auto function = real<int (*)(int)>("fsync");
  return guarded("fsync", path_of(fd), true, [&] { return function(fd); });
}

int rename(const char* from, const char* to) {
  static const auto function = real<int (*)(const char*, const char*)>("rename");
  return guarded("rename", text_of(to), true, [&] { return function(from, to); });
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  static const auto function = real<int (*)(int, const char*, int, const char*)>("renameat");
  return guarded("rename", path_at(to_folder, to), true, [&] { return function(from_folder, from, to_folder, to); });
}

int unlink(const char* path) {
  static const auto function = real<int (*)(const char*)>("unlink");
  return guarded("unlink", text_of(path), true, [&] { return function(path); });
}

int unlinkat(int folder, const char* path, int flags) {
  static const auto function = real<int (*)(int, const char*, int)>("unlinkat");
  return guarded("unlink", path_at(folder, path), true, [&] { return function(folder, path, flags); });
}

int mkdir(const char* path, mode_t mode) {
  static const auto function = real<int (*)(const char*, mode_t)>("mkdir");
  return guarded("mkdir", text_of(path), true, [&] { return function(path, mode); });
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)

}  // extern "C"
