echo a # b
c \
 d; ((1 + 2)); for ((i=0;i<3;i++)); do x; done