# Looks for a secret in every file there is. The secret comes in two halves and reaches grep through a pipe,
# so that the search does not find itself. What has no end to be read is left out.
found=$(timeout 40 grep -rlsF --devices=skip --exclude=pagemap --exclude='kpage*' -f <(printf %s "$1$2") /)
ended=$?
if [ -n "$found" ]; then
    echo BREACHED $(head -3 <<<"$found")
elif [ $ended -le 2 ]; then
    echo HELD
else
    echo "no verdict: grep ended with $ended"
fi
