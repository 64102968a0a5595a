#!/bin/sh
# Make the namespace and the search attributes that the workflows set, where they are missing. Takes the address and
# the namespace as the `temporal` CLI does, from TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE.
set -eu
namespace=${TEMPORAL_NAMESPACE:-default}

temporal operator namespace describe --namespace "$namespace" >/dev/null 2>&1 ||
  temporal operator namespace create --namespace "$namespace" --retention 30d

# A new namespace is there at once and can be used some seconds later.
tries=30
until known=$(temporal operator search-attribute list --namespace "$namespace"); do
  tries=$((tries - 1))
  [ "$tries" -gt 0 ] || exit 1
  sleep 1
done

for pair in MemoryTenant:Keyword MemoryScope:Keyword MemorySignature:Keyword MemoryVerdict:Keyword MemoryHits:Int; do
  case "$known" in
    *"${pair%%:*}"*) ;;
    *) temporal operator search-attribute create --namespace "$namespace" --name "${pair%%:*}" --type "${pair#*:}" ;;
  esac
done
