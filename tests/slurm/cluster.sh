#!/usr/bin/env bash
# The inside of a Slurm cluster of two nodes on one machine, in namespaces of its own (cluster.py starts it so, as process
# 1 of them): munged and slurmctld here on "control", a slurmd on each of "node1" and "node2", which have their own network,
# host name, /dev/shm and /var/tmp, so that Slurm and MPI see two hosts. All ends with this script.
#
#   cluster.sh FOLDER     FOLDER: configuration, state and logs; FOLDER/up comes to be when both nodes are idle
set -euo pipefail
folder=$1

mount -t proc proc /proc
mount --make-rprivate /
hostname control
ip link set lo up
ip link add cluster type bridge
ip addr add 10.77.0.1/24 dev cluster
ip link set cluster up

# A key of its own and a socket of its own: a munged of the machine is left alone.
mkdir -p "$folder"/{munge,state,log,spool.node1,spool.node2}
chmod 0700 "$folder/munge"
head -c 1024 /dev/urandom >"$folder/munge/key"
chmod 0600 "$folder/munge/key"
munged --force --key-file "$folder/munge/key" --socket "$folder/munge.socket" --pid-file "$folder/munge/pid" \
  --log-file "$folder/munge/log" --seed-file "$folder/munge/seed"

{
  cat <<CONF
ClusterName=test
SlurmctldHost=control(10.77.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket,cred_expire=5
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool.%n
TmpFS=/var/tmp
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.%n.pid
SlurmctldLogFile=$folder/log/slurmctld
SlurmdLogFile=$folder/log/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
MpiDefault=pmix
ReturnToService=2
JobRequeue=0
KillWait=15
OverTimeLimit=10
SlurmdTimeout=20
SchedulerParameters=sched_interval=2,batch_sched_delay=0,requeue_delay=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=15
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=2 PreemptMode=OFF
CONF
  for number in 1 2; do
    echo "NodeName=node$number NodeAddr=10.77.0.1$number CPUs=8 Boards=1 SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=1 State=UNKNOWN"
  done
} >"$folder/slurm.conf"
export SLURM_CONF=$folder/slurm.conf
slurmctld -c -i

# The shell of a node stays, as its namespaces' keeper; its process number lies in FOLDER/nodeN.
for number in 1 2; do
  node=node$number
  mkfifo "$folder/$node.go"
  unshare --net --uts --mount bash -c '
    set -e
    hostname "$1"
    mount -t tmpfs tmpfs /dev/shm
    mount -t tmpfs tmpfs /var/tmp
    echo $$ >"$2/$1"
    read -r _ <"$2/$1.go"   # the network is there
    slurmd -N "$1"
    exec sleep infinity' _ "$node" "$folder" &
  until [ -s "$folder/$node" ]; do sleep 0.05; done
  keeper=$(cat "$folder/$node")
  ip link add "veth$number" type veth peer name eth0 netns "$keeper"
  ip link set "veth$number" master cluster up
  nsenter --target "$keeper" --net sh -c "ip link set lo up; ip addr add 10.77.0.1$number/24 dev eth0; ip link set eth0 up"
  echo >"$folder/$node.go"
done

until [ "$(sinfo -h -N -p main -t idle -o %N 2>/dev/null | wc -l)" = 2 ]; do sleep 0.2; done
touch "$folder/up"
exec sleep infinity
