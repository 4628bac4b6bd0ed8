cat <<EOF > out
$(a) ${b}
EOF
cat <<'E' <<-F
x
E
	y
	F