#include "compress/comm/observed_communicator.h"

namespace terngrad {

void ObservedCommunicator::show(const Parcels& parcels) {
  for (std::size_t i = 0; i < parcels.count(); ++i) observer_(parcels.parcel(i));
}

void ObservedCommunicator::all_gather(Parcels& mine, Parcels& all) {
  show(mine);
  inner_->all_gather(mine, all);
}

void ObservedCommunicator::all_to_all(std::span<Parcels> outgoing, Parcels& incoming) {
  for (const Parcels& parcels : outgoing) show(parcels);
  inner_->all_to_all(outgoing, incoming);
}

}  // namespace terngrad
