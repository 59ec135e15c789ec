#!/bin/sh
# Undoes install.sh. Records, keys, and settings and policy that were changed stay, unless --purge.
set -eu

usage() {
  cat <<'TEXT'
usage: uninstall.sh [--purge]

  --purge   removes records, stored keys, the root key, settings and policy as well; nothing brings them back

DESTDIR=FOLDER looks below FOLDER and stops nothing.
TEXT
}

purge=no
case ${1:-} in
  '') ;;
  --purge) purge=yes ;;
  --help | -h)
    usage
    exit 0
    ;;
  *)
    usage >&2
    exit 2
    ;;
esac
[ $# -le 1 ] || {
  usage >&2
  exit 2
}

DESTDIR=${DESTDIR:-}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
package=$(dirname -- "$here")
units=$DESTDIR/etc/systemd/system
etc=$DESTDIR/etc/ai-request-gateway

if [ -z "$DESTDIR" ]; then
  [ "$(id -u)" = 0 ] || {
    echo 'uninstall.sh: must be run as root (or with DESTDIR)' >&2
    exit 1
  }
  if [ -d /run/systemd/system ]; then
    for unit in ai-request-gateway.socket ai-request-gateway.service; do
      [ ! -e "$units/$unit" ] || systemctl disable --now "$unit"
    done
  fi
fi

removed() {
  [ -e "$1" ] || [ -L "$1" ] || return 0
  rm -rf -- "$1"
  echo "removed $1"
}

removed "$units/ai-request-gateway.socket"
removed "$units/ai-request-gateway.service"
if [ "$purge" = yes ]; then
  removed "$units/ai-request-gateway.service.d"
  removed "$units/ai-request-gateway.socket.d"
  removed "$etc"
  removed "$DESTDIR/var/lib/ai-request-gateway"
  removed "$DESTDIR/var/lib/private/ai-request-gateway"
else
  # As they were installed they are nobody's work.
  if [ -f "$etc/environment" ] && cmp -s "$here/environment" "$etc/environment"; then removed "$etc/environment"; fi
  if [ -d "$etc/policies" ] && diff -r "$package/policies" "$etc/policies" >/dev/null 2>&1; then removed "$etc/policies"; fi
  if [ -d "$etc" ]; then rmdir "$etc" 2>/dev/null || :; fi
fi
# The folders of a DESTDIR that held nothing else.
if [ -d "$DESTDIR/etc/systemd/system" ] && [ -n "$DESTDIR" ]; then
  (cd -- "$DESTDIR" && rmdir -p etc/systemd/system 2>/dev/null) || :
fi

if [ -z "$DESTDIR" ] && [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
for kept in "$etc" "$DESTDIR/var/lib/private/ai-request-gateway" "$DESTDIR/var/lib/ai-request-gateway"; do
  if [ -e "$kept" ]; then echo "kept $kept"; fi
done
