#include "compress/comm/mpi/mpi_session.h"

#include <array>
#include <cstdlib>
#include <string>
#include <utility>

#include "kernels/runtime/errors.h"

#ifdef TERNGRAD_WITH_MPI
#include <mpi.h>
#endif

namespace terngrad {
namespace {

/// Value of the first of the two environment variables that is set to a number >= 0; -1 if none is.
int number_of(const std::array<const char*, 2>& names) {
  for (const char* const name : names) {
    const char* const text = std::getenv(name);
    if (text == nullptr) continue;
    char* end = nullptr;
    const long value = std::strtol(text, &end, 10);
    if (end != text && *end == '\0' && value >= 0 && value < (1 << 24)) return static_cast<int>(value);
  }
  return -1;
}

}  // namespace

// The variables of Open MPI and other launchers with PMIx, and of launchers with PMI. Slurm's own variables do not
// count: batch scripts have them too.
bool is_launched_by_mpi() {
  return std::getenv("OMPI_COMM_WORLD_RANK") != nullptr || std::getenv("PMIX_RANK") != nullptr ||
         std::getenv("PMI_RANK") != nullptr;
}

LaunchedRank launched_rank() {
  if (!is_launched_by_mpi()) return {};
  int rank = number_of({"OMPI_COMM_WORLD_RANK", "PMIX_RANK"});
  if (rank < 0) rank = number_of({"PMI_RANK", "SLURM_PROCID"});
  int size = number_of({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"});
  if (size < 0) size = number_of({"SLURM_NTASKS", "SLURM_NPROCS"});
  if (rank < 0 || size <= rank) return {};
  return {rank, size};
}

#ifdef TERNGRAD_WITH_MPI

bool has_mpi() { return true; }

std::string mpi_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> words{};
  int length = 0;
  if (MPI_Get_library_version(words.data(), &length) != MPI_SUCCESS) return "of an unknown version";
  // Keeps the text before the first comma or line break; packager and date follow it.
  const std::string text(words.data());
  return text.substr(0, text.find_first_of(",\n"));
}

MpiSession::MpiSession() {
  int is_initialized = 0;
  MPI_Initialized(&is_initialized);
  TERNGRAD_REQUIRE(is_initialized == 0, "[mpi] MPI is initialized already");
  int provided = MPI_THREAD_SINGLE;
  const int result = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  if (result != MPI_SUCCESS) TERNGRAD_THROW(CommunicationError, "[mpi] cannot be initialized: error ", result);
  if (provided < MPI_THREAD_SERIALIZED) {
    MPI_Finalize();
    TERNGRAD_THROW(CommunicationError, "[mpi] this MPI cannot be called from several threads, not even one at a time");
  }
}

MpiSession::~MpiSession() { MPI_Finalize(); }

void MpiSession::abort(int exit_code) {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

#else

bool has_mpi() { return false; }
std::string mpi_version() { return ""; }

MpiSession::MpiSession() {
  throw NotSupported("[mpi] this build has no MPI: install libopenmpi-dev and configure with -DTERNGRAD_MPI=ON");
}

MpiSession::~MpiSession() = default;

void MpiSession::abort(int exit_code) { std::_Exit(exit_code); }

#endif

}  // namespace terngrad
