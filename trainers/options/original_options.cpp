#include "trainers/command_line/option_set.h"
#include "trainers/options/train_option_groups.h"

namespace terngrad {

void refuse_options_of_the_original(OptionSet& options) {
  options.refuse("subset", "training takes the training subset; terngrad_eval has --subset train|test");
  options.refuse("log_device_placement", "there is no graph to place; the first log line says what runs where");
  options.refuse("pretrained_model_checkpoint_path",
                 "use --init_from FILE to begin with another run's parameters, or --resume to resume a run");
  options.refuse("use_encoding", "messages are always encoded; there is no mode without");
  options.refuse("save_tower", "workers share one copy of the parameters, which is what a checkpoint holds");
  for (const char* name : {"job_name", "ps_hosts", "worker_hosts", "task_id", "num_replicas_to_aggregate"}) {
    options.refuse(name,
                   "a launcher starts the processes of a run on its hosts: mpirun -np P terngrad_train --num_nodes N");
  }
  options.refuse("save_interval_secs", "checkpoints are counted in steps, so that runs can be repeated: --save_iter");
  options.refuse("save_summaries_secs", "reports are counted in steps, so that runs can be repeated: --log_steps");
}

}  // namespace terngrad
