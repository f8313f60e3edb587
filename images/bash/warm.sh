# A bash that waits for its program: read before the program is opened, in the process that will run it. Descriptor 3
# is a socket: one byte says that this waits; what comes begins with `1` if descriptor 4 is to be standard input.
# The message ends with the socket; its rest holds no more than is known here already, since a program with arguments
# or variables of its own gets a new shell. Every trace is taken away again (`_` is what it is at a start), but for two
# that only the very first command could see: PIPESTATUS is set, and BASH_ARGC has an element.
unset -v BASH_ENV
printf r >&3
IFS= read -r -N 1 -u 3 REPLY || exit 1
if [[ $REPLY == 1 ]]; then exec 0<&4; fi
exec 3<&- 4<&-
unset -v REPLY
SECONDS=0
: bash
