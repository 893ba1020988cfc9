// Collectives between the ranks of a launch: messages and bytes that each rank sends, and seconds.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "compress/comm/mpi/mpi_communicator.h"
#include "compress/comm/mpi/mpi_session.h"

namespace {

std::uint64_t sent_messages = 0;
std::uint64_t sent_bytes = 0;

}  // namespace

/// In place of MPI's own: counts what it passes on (MPI-4.1, 15.2, name-shifted profiling interface).
extern "C" int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm group,
                         MPI_Request* request) {
  int size = 0;
  PMPI_Type_size(type, &size);
  ++sent_messages;
  sent_bytes += static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(size);
  return PMPI_Isend(data, count, type, to, tag, group, request);
}

namespace {

/// One line of the table: what rank 0 and the busiest rank send in one operation, and the median of the seconds, each
/// the slowest rank's.
void measure(const char* name, int num_rounds, terngrad::Communicator& group, const std::function<void()>& operation) {
  operation();
  std::vector<double> seconds(static_cast<std::size_t>(num_rounds));
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  for (double& of_round : seconds) {
    MPI_Barrier(MPI_COMM_WORLD);
    sent_messages = 0;
    sent_bytes = 0;
    const auto begin = std::chrono::steady_clock::now();
    operation();
    of_round = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    messages = sent_messages;
    bytes = sent_bytes;
  }
  MPI_Allreduce(MPI_IN_PLACE, seconds.data(), num_rounds, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  std::nth_element(seconds.begin(), seconds.begin() + num_rounds / 2, seconds.end());
  std::uint64_t most[2] = {messages, bytes};
  MPI_Allreduce(MPI_IN_PLACE, most, 2, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  if (group.rank() != 0) return;
  std::printf("| %d | %s | %llu | %llu | %llu | %llu | %.3g |\n", group.size(), name,
              static_cast<unsigned long long>(messages), static_cast<unsigned long long>(bytes),
              static_cast<unsigned long long>(most[0]), static_cast<unsigned long long>(most[1]),
              1e3 * seconds[static_cast<std::size_t>(num_rounds / 2)]);
}

}  // namespace

/// One argument: the MB that are broadcast.
int main(int argc, char** argv) {
  const terngrad::MpiSession session;
  const auto group = terngrad::make_mpi_communicator();
  if (group->rank() == 0) {
    std::printf("| ranks | operation | rank 0: messages | bytes | most: messages | bytes | ms |\n");
    std::printf("| --- | --- | --- | --- | --- | --- | --- |\n");
  }
  measure("barrier", 201, *group, [&] { group->barrier(); });
  std::vector<std::uint8_t> checkpoint(static_cast<std::size_t>(argc > 1 ? std::atoi(argv[1]) : 244) * 1000000);
  measure("broadcast", 3, *group, [&] { group->broadcast(checkpoint, 0); });
  std::vector<std::uint64_t> sums(1024);
  measure("all_reduce_sum, 8 KiB", 101, *group, [&] { group->all_reduce_sum(sums); });
  sums.resize(std::size_t{4} << 17);
  measure("all_reduce_sum, 4 MiB", 11, *group, [&] { group->all_reduce_sum(sums); });
  terngrad::Parcels mine;
  terngrad::Parcels all;
  const std::vector<std::uint8_t> parcel(64);
  measure("all_gather, 64 bytes each", 201, *group, [&] {
    mine.clear();
    mine.append(parcel);
    group->all_gather(mine, all);
  });
  const std::vector<std::uint8_t> shard(std::size_t{64} << 10);
  std::vector<terngrad::Parcels> outgoing(static_cast<std::size_t>(group->size()));
  measure("all_to_all, 64 KiB to each", 21, *group, [&] {
    for (terngrad::Parcels& parcels : outgoing) {
      parcels.clear();
      parcels.append(shard);
    }
    group->all_to_all(outgoing, all);
  });
}
