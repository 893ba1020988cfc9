// A library to preload (LD_PRELOAD) that makes one file-system call of a program fail, or kills the program there. It
// counts calls of open, write, fsync and rename on the folder TERNGRAD_FAIL_FOLDER and files in it, from 1, and acts at
// call number TERNGRAD_FAIL_CALL:
//   TERNGRAD_FAIL_ACTION=kill_before  SIGKILL in place of the call; of a write, half is done first
//   TERNGRAD_FAIL_ACTION=kill_after   SIGKILL once the call is done
//   TERNGRAD_FAIL_ACTION=full_once    the call fails with ENOSPC (a write after half of it is done)
//   TERNGRAD_FAIL_ACTION=full_after   this call and all writes, and openings for writing, that follow do
//   TERNGRAD_FAIL_ACTION=list         every call is noted in the file TERNGRAD_FAIL_LIST instead, one name a line
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>

namespace {

enum class Action { kNone, kKillBefore, kKillAfter, kFullOnce, kFullAfter, kList };

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
    if (action == "full_after") made.action = Action::kFullAfter;
    if (action == "list") made.action = Action::kList;
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

bool is_watched(const char* path) {
  if (path == nullptr || plan().action == Action::kNone) return false;
  return path == plan().folder || std::string(path).starts_with(plan().folder + "/");
}

bool is_watched(int fd) {
  if (plan().action == Action::kNone) return false;
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = readlink(link.c_str(), path, sizeof(path) - 1);
  if (length <= 0) return false;
  path[length] = '\0';
  return is_watched(path);
}

[[noreturn]] void die() {
  kill(getpid(), SIGKILL);
  while (true) pause();
}

/// Counts a call and says what is to be done about it.
Action next(const char* name, bool writes) {
  static long number = 0;
  ++number;
  if (plan().action == Action::kList) {
    static const auto open_list = real<int (*)(const char*, int, ...)>("open");
    const int list = open_list(plan().list.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    const std::string line = std::string(name) + "\n";
    if (real_write(list, line.data(), line.size()) < 0) abort();
    close(list);
  }
  if (plan().action == Action::kFullAfter && number > plan().call && writes) return Action::kFullAfter;
  return number == plan().call && plan().action != Action::kList ? plan().action : Action::kNone;
}

/// Makes a call that has no halves.
template <class Call>
auto guarded(const char* name, bool watched, bool writes, const Call& call) -> decltype(call()) {
  const Action action = watched ? next(name, writes) : Action::kNone;
  if (action == Action::kKillBefore) die();
  if (action == Action::kFullOnce || action == Action::kFullAfter) {
    errno = ENOSPC;
    return -1;
  }
  const auto result = call();
  if (action == Action::kKillAfter) die();
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
  return guarded("open", is_watched(path), (flags & O_ACCMODE) != O_RDONLY,
                 [&] { return function(path, flags, mode); });
}

ssize_t write(int fd, const void* data, size_t count) {
  const Action action = is_watched(fd) ? next("write", true) : Action::kNone;
  if (action == Action::kNone) return real_write(fd, data, count);
  // What was written of a failing call stays: a full disk takes a part, too.
  [[maybe_unused]] const ssize_t written = real_write(fd, data, action == Action::kKillAfter ? count : count / 2);
  if (action == Action::kKillBefore || action == Action::kKillAfter) die();
  errno = ENOSPC;
  return -1;
}

int fsync(int fd) {
  static const auto function = real<int (*)(int)>("fsync");
  return guarded("fsync", is_watched(fd), true, [&] { return function(fd); });
}

int rename(const char* from, const char* to) {
  static const auto function = real<int (*)(const char*, const char*)>("rename");
  return guarded("rename", is_watched(to), true, [&] { return function(from, to); });
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)

}  // extern "C"
